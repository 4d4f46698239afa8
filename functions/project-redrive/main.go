// Command project-redrive is the Lambda function that knows where messages of dead-letter queues came from, woken by the log's changes.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/projections"
)

func main() { host.Consume(projections.Redrive) }
