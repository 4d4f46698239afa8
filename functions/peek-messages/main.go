// Command peek-messages is the Lambda function behind GET /v1/queues/{queue_id}/messages.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.PeekMessages) }
