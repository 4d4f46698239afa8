// Command list-queues is the Lambda function behind GET /v1/queues.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.ListQueues) }
