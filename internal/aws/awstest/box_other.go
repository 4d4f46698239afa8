//go:build !linux

package awstest

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

// box needs Linux.
type box struct{ dir string }

func newBox(string) (*box, error) {
	return nil, errors.New("start a Docker engine that can pull images: only on Linux can this be done without")
}

func (*box) close() error                                { return nil }
func (*box) start(cmd *exec.Cmd) error                   { return cmd.Start() }
func (*box) dial(context.Context, int) (net.Conn, error) { return nil, errors.ErrUnsupported }
