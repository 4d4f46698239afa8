package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/broker"
)

// shardsDefault is how many shards a new standard queue gets: each takes about two hundred commits a second.
const shardsDefault = 4

// Config says where a deployment is, and who hears of what this process does there.
type Config struct {
	AWS aws.Config // credentials, region, endpoint; of a function: [FromEnvironment], of a server: package account
	// Tables, Key and Deployment are those of infra/, the same in every process. Key is the platform's KMS key: its id,
	// ARN or alias. Deployment is bound to every wrapped key.
	Tables     store.Tables
	Key        string
	Deployment string
	Region     string // in the names of resources; default: that of AWS
	Shards     int    // of new standard queues; default 4
	Unattended bool   // nothing here ticks, as in a function: see [broker.Config]

	Now      func() events.Instant // default: the clock on the wall, since that of a frozen process stands still
	Rand     io.Reader             // default: crypto/rand.Reader
	Logger   *slog.Logger          // default: nothing is logged
	Meter    broker.Meter          // hears what the broker does; default: nobody
	Failed   func(status int, code string)
	Consumed func(operation string, readUnits, writeUnits float64) // hears what each call to DynamoDB took
}

// The variables of a function's environment, which template.yaml sets.
const (
	envLog        = "LEASELOG_LOG_TABLE"
	envClaims     = "LEASELOG_CLAIMS_TABLE"
	envViews      = "LEASELOG_VIEWS_TABLE"
	envKey        = "LEASELOG_KMS_KEY"
	envDeployment = "LEASELOG_DEPLOYMENT"
	envRegion     = "LEASELOG_REGION" // in the names of resources, where it is not AWS'
	envShards     = "LEASELOG_SHARDS"
)

// FromEnvironment reads a configuration from variables: those of leaselog, and those that Lambda sets for every function.
// Every problem is in the error, in one sentence.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{Tables: store.Tables{Log: getenv(envLog), Claims: getenv(envClaims), Views: getenv(envViews)},
		Key: getenv(envKey), Deployment: getenv(envDeployment), Region: getenv(envRegion)}
	var missing []string
	for _, name := range []string{envLog, envClaims, envViews, envKey, envDeployment, "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	var problems []string
	if len(missing) > 0 {
		problems = append(problems, strings.Join(missing, ", ")+" must be set")
	}
	if text := getenv(envShards); text != "" {
		var err error
		if c.Shards, err = strconv.Atoi(text); err != nil || c.Shards < 1 || c.Shards > 1024 {
			problems = append(problems, fmt.Sprintf("%s must be a whole number from 1 to 1024, not %q", envShards, text))
		}
	}
	if len(problems) > 0 {
		return c, errors.New("the environment is not complete: " + strings.Join(problems, "; "))
	}
	c.AWS = aws.Config{Region: getenv("AWS_REGION"),
		Credentials: credentials.NewStaticCredentialsProvider(getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN"))}
	if url := getenv("AWS_ENDPOINT_URL"); url != "" {
		c.AWS.BaseEndpoint = &url
	}
	return c, nil
}

func (c *Config) fill() {
	if c.Region == "" {
		c.Region = c.AWS.Region
	}
	if c.Shards == 0 {
		c.Shards = shardsDefault
	}
	if c.Now == nil {
		c.Now = func() events.Instant { return events.Instant(time.Now().UnixMilli()) }
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
