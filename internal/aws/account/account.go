// Package account finds the AWS account that a program works in. A Lambda function has all of that in its environment,
// and is two megabytes smaller without what is needed here.
package account

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Load finds credentials, region and endpoints as every program of AWS does: in the environment, in the files of the
// user, and in what a container or a machine is given.
// A server has many calls to the same host under way, so that many connections are kept: the SDK keeps ten, and opens and
// closes all others for one call each.
func Load(ctx context.Context) (aws.Config, error) {
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = connectionsKept, connectionsKept
	})
	return config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
}

// connectionsKept is for as many commands as a server has shards that write at the same time.
const connectionsKept = 256
