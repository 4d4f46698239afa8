// Command project-depth is the Lambda function that counts messages, woken by the log's changes.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/projections"
)

func main() { host.Consume(projections.Depth) }
