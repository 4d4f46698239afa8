// Package account finds the AWS account that a program works in. A Lambda function has all of that in its environment,
// and is two megabytes smaller without what is needed here.
package account

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Load finds credentials, region and endpoints as every program of AWS does: in the environment, in the files of the
// user, and in what a container or a machine is given.
func Load(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }
