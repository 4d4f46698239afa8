package cli

import (
	"crypto/rand"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/client"
)

const (
	endpointDefault = "http://127.0.0.1:8080"
	// tokenDefault is what a server in development mode takes, as it takes anything.
	tokenDefault = "dev"
)

func environmentTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "environment",
		Short: "The variables by which the commands find the server and its credentials",
		Long: `The variables by which the commands find the server and its credentials. Those of the vendor's clients count where
leaselog's own are not set:

  LEASELOG_ENDPOINT           BASALTIC_ENDPOINT_URL_QUEUE  URL of the server; default ` + endpointDefault + `
  LEASELOG_TOKEN_ENDPOINT     BASALTIC_ENDPOINT_URL_IAM    where key pairs are exchanged for tokens; default the same
  LEASELOG_TOKEN              BASALTIC_ACCESS_TOKEN        a bearer token; wins over a key pair beside it
  LEASELOG_ACCESS_KEY_ID      BASALTIC_ACCESS_KEY_ID       a key pair
  LEASELOG_SECRET_ACCESS_KEY  BASALTIC_SECRET_ACCESS_KEY
  LEASELOG_SIGN                                            1: sign each request with the key pair, and get no token (--sign)
  LEASELOG_ACCOUNT_ID         BASALTIC_ACCOUNT_ID          the account to act on; default the credential's own
  NO_COLOR                                                 if set, nothing is coloured

With no credentials at all the token is "` + tokenDefault + `", which a server in development mode takes.`,
	}
}

// first gives the value of the first variable that is set.
func (p Program) first(names ...string) string {
	for _, n := range names {
		if v := p.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// config reads flags and environment.
func (p Program) config() (client.Config, error) {
	c := client.Config{
		Endpoint:      p.options.endpoint,
		TokenEndpoint: p.first("LEASELOG_TOKEN_ENDPOINT", "BASALTIC_ENDPOINT_URL_IAM"),
		Account:       p.first("LEASELOG_ACCOUNT_ID", "BASALTIC_ACCOUNT_ID"),
		Attempts:      p.options.attempts,
		UserAgent:     "leaselog/" + p.Version + " (" + runtime.GOOS + ")",
	}
	if c.Endpoint == "" {
		c.Endpoint = p.first("LEASELOG_ENDPOINT", "BASALTIC_ENDPOINT_URL_QUEUE")
	}
	if c.Endpoint == "" {
		c.Endpoint = endpointDefault
	}
	switch sign, err := p.signs(); {
	case err != nil:
		return c, err
	case sign:
		if c.Sign = p.signer(); c.Sign == nil {
			return c, usage("a signature needs a key pair: set LEASELOG_ACCESS_KEY_ID and LEASELOG_SECRET_ACCESS_KEY, or leave --sign and LEASELOG_SIGN out")
		}
		return c, nil
	}
	c.Token, c.KeyID, c.Secret = p.credentials()
	return c, nil
}

// credentials gives a token or a key pair. leaselog's own, of either kind, win over the vendor's.
func (p Program) credentials() (token, id, secret string) {
	for _, of := range []string{"LEASELOG_", "BASALTIC_"} {
		name := of + "TOKEN"
		if of == "BASALTIC_" {
			name = "BASALTIC_ACCESS_TOKEN"
		}
		if token := p.Getenv(name); token != "" {
			return token, "", ""
		}
		if id, secret := p.pair(of); id+secret != "" {
			return "", id, secret
		}
	}
	return tokenDefault, "", ""
}

func (p Program) pair(of string) (id, secret string) {
	return p.Getenv(of + "ACCESS_KEY_ID"), p.Getenv(of + "SECRET_ACCESS_KEY")
}

func (p Program) signs() (bool, error) {
	v := p.Getenv("LEASELOG_SIGN")
	if p.options.sign || v == "" {
		return p.options.sign, nil
	}
	sign, err := strconv.ParseBool(v)
	if err != nil {
		return false, usage("LEASELOG_SIGN must be 1 or 0, not %q", v)
	}
	return sign, nil
}

// signer signs with the key pair; nil if there is none. The region "global" is good for a server of any.
func (p Program) signer() func(*http.Request, []byte) error {
	id, secret := p.pair("LEASELOG_")
	if id+secret == "" {
		id, secret = p.pair("BASALTIC_")
	}
	if id == "" || secret == "" {
		return nil
	}
	by := auth.Credentials{ID: id, Secret: secret, Region: "global"}
	return func(r *http.Request, body []byte) error { return by.Sign(r, body, time.Now(), rand.Text()) }
}

// connect gives a client, without asking the server anything.
func (p Program) connect() (*client.Client, error) {
	if p.options.attempts < 1 || p.options.attempts > 10 {
		return nil, usage("--attempts must be 1 to 10, not %d", p.options.attempts)
	}
	config, err := p.config()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config)
	if err != nil {
		return nil, usageError{error: err}
	}
	return c, nil
}

// queueNamed refuses the empty name, which would be another path.
func queueNamed(name string) error {
	if name == "" {
		return usage("the queue's name is empty: give its name, id or CRN")
	}
	return nil
}

// talk is a command's work with a client, on the queue that its first argument names.
func (p Program) talk(work func(cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := queueNamed(args[0]); err != nil {
				return err
			}
		}
		c, err := p.connect()
		if err != nil {
			return err
		}
		return work(cmd, c, args)
	}
}
