package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/local/host"
)

func (p Program) serve() *cobra.Command {
	var c host.Config
	var where backing
	var level slog.Level
	var format, cpuProfile, collector string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the server",
		Long: `Start the server with its embedded store, or on a deployment in AWS.

It keeps everything in the data directory: the log, sealed, and the key that opens it. With --store dynamodb it keeps
everything in the tables of a deployment in AWS, beside its functions and any number of other servers. It stops on
SIGTERM or SIGINT: waiting receives are answered, what runs is finished, and the store is closed.

While there are no access keys the server is in development mode: it takes any bearer token, key pair or signature.
The first key ends that mode at once (leaselog keys create); --dev keeps it. That mode is for loopback: on any other
address the server starts only when there are keys, and never with --dev. On a deployment in AWS credentials are
verified from the start, unless --dev is given.`,
		Example: `  leaselog serve
  leaselog serve --listen 127.0.0.1:9000 --data /var/lib/leaselog
  AWS_REGION=eu-west-1 leaselog serve --store dynamodb --stack leaselog`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Logger, err = p.logger(level, format); err != nil {
				return err
			}
			remote, err := where.remote(cmd)
			if err != nil {
				return err
			}
			if c.Version, c.Data = p.Version, where.data; remote {
				c.Open = where.shared(cmd.Context(), c)
			}
			c.Traces, c.Push = exported("TRACES", collector), exported("METRICS", collector)
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
			h, err := host.Open(c)
			if err != nil {
				return err
			}
			stopProfile, err := profile(cpuProfile)
			if err != nil {
				return err
			}
			defer stopProfile()
			welcome(p.Stdout, h)
			return h.Run(ctx)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "address to listen on; port 0 takes a free one")
	where.flags(cmd)
	f.StringVar(&c.Region, "region", "", "region in the names of resources (default: local, or that of AWS)")
	f.BoolVar(&c.Dev, "dev", false, "take any credentials though there are keys; on loopback only")
	f.StringVar(&c.TLSCert, "tls-cert", "", "file with the server's certificate and its chain, in PEM: serve https")
	f.StringVar(&c.TLSKey, "tls-key", "", "file with the certificate's key, in PEM")
	f.IntVar(&c.Shards, "shards", 0, "shards of new standard queues (default: 1, or 4 with dynamodb)")
	f.BoolVar(&where.keepViews, "keep-views", false, "keep views by the deployment's stream of changes, for dynamodb: where no project-* functions do")
	f.DurationVar(&c.HistoryAge, "history-age", 0, "how long to keep the history of finished messages (default 24h)")
	f.Uint64Var(&c.HistoryBytes, "history-bytes", 0, "size of the store beyond which history is dropped earlier (default 10 GB)")
	f.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.StringVar(&c.MetricsListen, "metrics-listen", "", "address for /metrics, /healthz and /readyz alone, without credentials\n(default: /metrics is on --listen where that is loopback, and off otherwise)")
	f.StringVar(&collector, "otlp-endpoint", os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "base URL of an OpenTelemetry collector (OTLP over HTTP) to send traces and metrics to,\nsuch as http://127.0.0.1:4318; $OTEL_EXPORTER_OTLP_ENDPOINT;\nOTEL_TRACES_EXPORTER=none or OTEL_METRICS_EXPORTER=none sends only the other")
	f.StringVar(&cpuProfile, "cpu-profile", "", "write a CPU profile of the whole run to this file, for go tool pprof")
	return cmd
}

// exported gives the collector's URL for a signal, unless the environment turns that signal off.
func exported(signal, collector string) string {
	if os.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return ""
	}
	return collector
}

// logger writes the log to stderr, a line an event.
func (p Program) logger(level slog.Level, format string) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(p.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(p.Stderr, o)), nil
	}
	return nil, fmt.Errorf("--log-format must be text or json, not %q", format)
}

// profile begins a CPU profile where a file is named for it, and gives what ends it.
func profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("the CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("the CPU profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// watched says where those who run the server look.
func watched(h *host.Host) string {
	if url := h.MetricsURL(); url != "" {
		return url
	}
	return "off; --metrics-listen turns metrics on"
}

// welcome says where the server is, how the official clients find it, and where the data lies.
func welcome(w io.Writer, h *host.Host) {
	url := h.URL()
	fmt.Fprintf(w, `leaselog is ready at %s

%s  Point the official clients here:

    export BASALTIC_ENDPOINT_URL_QUEUE=%s
    export BASALTIC_ENDPOINT_URL_IAM=%s
%s
  Data: %s
  Watch: %s
  Stop: Ctrl-C
`, url, mode(h), url, url, token(h), h.Place, watched(h))
}

// mode says how callers are known.
func mode(h *host.Host) string {
	switch {
	case h.Dev:
		return `  Development mode, as --dev says: any bearer token, key pair or signature is taken and belongs to the account "local".

`
	case h.Unlocked():
		return `  Development mode: any bearer token, key pair or signature is taken and belongs to the account "local".
  The first access key ends it: ` + h.Manage + `

`
	}
	return `  Credentials are verified. Keys are made with: ` + h.Manage + `

`
}

// token is what clients send where nothing is verified.
func token(h *host.Host) string {
	if h.Unlocked() {
		return "    export BASALTIC_ACCESS_TOKEN=dev\n"
	}
	return "    export BASALTIC_ACCESS_KEY_ID=… BASALTIC_SECRET_ACCESS_KEY=…\n"
}
