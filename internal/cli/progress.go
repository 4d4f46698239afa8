package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on the standard error, if that is a terminal and nobody asked for JSON; nil shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// begin shows a bar up to a total; below 0 it is unknown.
func (p Program) begin(total int64, what string, inBytes bool) *progress {
	if _, ok := terminal(p.Stderr); !ok || p.options.json {
		return nil
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.Stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(inBytes),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(), progressbar.OptionEnableColorCodes(false))}
}

func (g *progress) add(n int) {
	if g != nil {
		_ = g.bar.Add(n) // a bar that fails is no reason to stop
	}
}

// end removes the bar, so that what is printed next stands alone.
func (g *progress) end() {
	if g != nil {
		_ = g.bar.Clear()
	}
}
