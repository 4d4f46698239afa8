// Command list-depths is the Lambda function behind GET /x/v1/depths.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.ListDepths) }
