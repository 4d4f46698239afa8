// Command project-snapshots is the Lambda function that keeps the states of shards, woken by the log's changes.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/projections"
)

func main() { host.Consume(projections.Snapshots) }
