// Command delete-message-batch is the Lambda function behind POST /v1/queues/{queue_id}/messages/delete-batch.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.DeleteMessageBatch) }
