// Command project-traffic is the Lambda function that counts what happened in each minute, woken by the log's changes.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/projections"
)

func main() { host.Consume(projections.Traffic) }
