// Command report-queues is the Lambda function that tells CloudWatch every minute what is in the queues.
package main

import "github.com/leaselog/leaselog/internal/aws/host"

func main() { host.Report() }
