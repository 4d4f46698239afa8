// Command cancel-move is the Lambda function behind POST /x/v1/queues/{queue_id}/moves/{move_id}/cancel.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.CancelMove) }
