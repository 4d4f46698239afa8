// Command delete-queue is the Lambda function behind DELETE /v1/queues/{queue_id}.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.DeleteQueue) }
