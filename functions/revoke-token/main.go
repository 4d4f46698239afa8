// Command revoke-token is the Lambda function behind POST /v1/oauth/revoke.
package main

import (
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/host"
)

func main() { host.Serve(rest.RevokeToken) }
