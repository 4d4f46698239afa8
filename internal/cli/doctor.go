package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
	"github.com/leaselog/leaselog/internal/local/host"
	"github.com/leaselog/leaselog/internal/local/keys"
)

// state is a verdict of doctor.
type state string

const (
	stateOK   state = "ok"
	stateWarn state = "warn"
	stateFail state = "fail"
)

// diagnosis is one line of doctor.
type diagnosis struct {
	Check  string `json:"check"`
	State  state  `json:"state"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

// The clock may be off by this much: a Date header is whole seconds, and a signature older than five minutes is
// refused (section 2.2).
const (
	clockWarn = 5 * time.Second
	clockFail = 5 * time.Minute
)

// Free space of the disk below which the store is in danger: it needs room to compact.
const (
	diskWarn = 2 << 30
	diskFail = 200 << 20
)

func (p Program) doctor() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether server, clock, credentials, disk and key are as they should be",
		Long: `Say whether the server can be reached, whether the clocks agree, whether the credentials are taken, and, where the data
directory is on this machine, whether its disk has room and its key file is safe. A line says ok, warn or fail, and what to
do. One fail makes the exit status 1.`,
		Example: "  leaselog doctor\n  leaselog doctor --data /var/lib/leaselog",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []diagnosis{{"version", stateOK, fmt.Sprintf("leaselog %s, %s %s/%s", p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), ""}}
			all = append(all, p.diagnoseServer(cmd.Context())...)
			all = append(all, p.diagnoseData(data, cmd.Flags().Changed("data"))...)
			return p.showDiagnoses(all)
		},
	}
	cmd.Flags().StringVar(&data, "data", "./leaselog-data", "data directory, where it is on this machine")
	_ = cmd.MarkFlagDirname("data")
	return cmd
}

func (p Program) showDiagnoses(all []diagnosis) error {
	failed := 0
	for _, d := range all {
		if d.State == stateFail {
			failed++
		}
		if err := p.showDiagnosis(d); err != nil {
			return err
		}
	}
	if failed > 0 {
		return partly{fmt.Errorf("%d of %d checks failed", failed, len(all))}
	}
	return nil
}

func (p Program) showDiagnosis(d diagnosis) error {
	if p.options.json {
		return p.printJSON(d)
	}
	c := map[state]colour{stateOK: green, stateWarn: yellow, stateFail: red}[d.State]
	text := fmt.Sprintf("%s %-11s %s\n", p.paint(p.Stdout, c, fmt.Sprintf("%-4s", d.State)), d.Check, d.Detail)
	if d.Advice != "" {
		text += fmt.Sprintf("     %-11s %s\n", "", d.Advice)
	}
	return p.printf("%s", text)
}

// diagnoseServer looks at the server once.
func (p Program) diagnoseServer(ctx context.Context) []diagnosis {
	p.options.attempts = 1
	c, err := p.connect()
	if err != nil {
		return []diagnosis{{"server", stateFail, err.Error(), "see: leaselog help environment"}}
	}
	all := []diagnosis{}
	if c.KeyID != "" {
		d := p.diagnoseExchange(ctx, c)
		if all = append(all, d); d.State == stateFail {
			return all
		}
	}
	probe, err := c.Probe(ctx)
	if err != nil {
		f := p.explain(err)
		return append(all, diagnosis{"server", stateFail, f.text, f.next})
	}
	server := diagnosis{"server", stateOK, fmt.Sprintf("%s answers in %s", c.Endpoint, probe.Took.Round(time.Millisecond)), ""}
	if probe.Took > time.Second {
		server.State, server.Advice = stateWarn, "that is slow; is the machine or its disk busy?"
	}
	return append(all, server, diagnoseClock(probe), diagnoseCredentials(probe))
}

func (p Program) diagnoseExchange(ctx context.Context, c *client.Client) diagnosis {
	lifetime, err := c.Exchange(ctx)
	if err != nil {
		f := p.explain(err)
		return diagnosis{"token", stateFail, f.text, f.next}
	}
	return diagnosis{"token", stateOK, fmt.Sprintf("the key pair %s was exchanged for a token of %s", c.KeyID, duration(int(lifetime.Seconds()))), ""}
}

func diagnoseClock(probe client.Probe) diagnosis {
	if probe.Date.IsZero() {
		return diagnosis{"clock", stateWarn, "the server does not say its time", "is this a leaselog server, or a proxy before it?"}
	}
	off := probe.Middle.Sub(probe.Date.Add(500 * time.Millisecond)).Round(time.Second) // the header is cut to the second
	d := diagnosis{"clock", stateOK, "this machine and the server agree", ""}
	if off.Abs() > clockWarn {
		d = diagnosis{"clock", stateWarn, fmt.Sprintf("this machine's clock is %s off the server's", off), "set both by NTP"}
	}
	if off.Abs() >= clockFail {
		d.State, d.Advice = stateFail, "signatures are refused beyond five minutes: set both by NTP"
	}
	return d
}

func diagnoseCredentials(probe client.Probe) diagnosis {
	switch {
	case probe.Status/100 == 2:
		return diagnosis{"credentials", stateOK, "the server takes them", ""}
	case probe.Status == http.StatusUnauthorized || probe.Status == http.StatusForbidden:
		_, next := answered(&client.Error{Status: probe.Status})
		return diagnosis{"credentials", stateFail, fmt.Sprintf("the server answers %d %s", probe.Status, http.StatusText(probe.Status)), next}
	}
	return diagnosis{"credentials", stateFail, fmt.Sprintf("the server answers %d to a list of queues", probe.Status),
		"is this the queue API? see --endpoint"}
}

// diagnoseData looks at a data directory. One that nobody named and that is not there is none of this machine's.
func (p Program) diagnoseData(dir string, named bool) []diagnosis {
	if _, err := os.Stat(dir); err != nil {
		if !named && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return []diagnosis{{"data", stateFail, err.Error(), "name the directory that leaselog serve was started with: --data DIR"}}
	}
	return []diagnosis{diagnoseDisk(dir), diagnoseKey(dir)}
}

func diagnoseDisk(dir string) diagnosis {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return diagnosis{"disk", stateFail, fmt.Sprintf("%s: %v", dir, err), ""}
	}
	free := uint64(s.Bavail) * uint64(s.Bsize)
	d := diagnosis{"disk", stateOK, fmt.Sprintf("%.1f GB are free for %s", float64(free)/(1<<30), dir), ""}
	switch {
	case free < diskFail:
		d.State, d.Advice = stateFail, "the store cannot go on like this: make room, or lower --history-bytes"
	case free < diskWarn:
		d.State, d.Advice = stateWarn, "make room, or lower --history-bytes of leaselog serve"
	}
	return d
}

func diagnoseKey(dir string) diagnosis {
	file := filepath.Join(dir, host.KeyFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return diagnosis{"key", stateFail, file + " does not exist", "bring it back from its copy: without it every message is lost"}
	}
	if _, err := keys.Open(file); err != nil {
		return diagnosis{"key", stateFail, err.Error(), ""}
	}
	return diagnosis{"key", stateOK, file + " is whole, and only its owner may read it", ""}
}
