package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leaselog/leaselog/internal/client"
)

// seconds is a flag for a duration: whole seconds, or with a unit as 30s, 5m, 1h30m, 4d. Unset is nil.
type seconds struct{ value *int }

// Type names the value in the help.
func (*seconds) Type() string { return "duration" }

func (s *seconds) String() string {
	if s.value == nil {
		return ""
	}
	return duration(*s.value)
}

// Set reads the value. Ranges are the server's to judge: they differ by field.
func (s *seconds) Set(text string) error {
	n, err := parseSeconds(text)
	if err == nil {
		s.value = &n
	}
	return err
}

func parseSeconds(text string) (int, error) {
	wrong := fmt.Errorf("a duration is whole seconds, or a number with s, m, h or d, such as 30s, 5m or 1h30m")
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 {
			return 0, fmt.Errorf("a duration is not negative")
		}
		return n, nil
	}
	days := 0.0
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(before, 10, 16)
		if err != nil {
			return 0, wrong
		}
		if days = float64(n) * 86400; after == "" {
			return int(days), nil
		}
		text = after
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, wrong
	case d < 0:
		return 0, fmt.Errorf("a duration is not negative")
	case d%time.Second != 0:
		return 0, fmt.Errorf("a duration is whole seconds")
	case d.Seconds()+days > math.MaxInt32:
		return 0, fmt.Errorf("a duration of so many seconds is too long for any field")
	}
	return int(d.Seconds() + days), nil
}

// duration shows seconds as people say them.
func duration(n int) string {
	if n == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		seconds int
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		if n >= u.seconds {
			fmt.Fprintf(&b, "%d%s", n/u.seconds, u.name)
			n %= u.seconds
		}
	}
	return b.String()
}

// size is a flag for a number of bytes: as it is, or with KB or MB, each 1024 of the one before. Unset is nil.
type size struct{ value *int }

// Type names the value in the help.
func (*size) Type() string { return "size" }

func (s *size) String() string {
	if s.value == nil {
		return ""
	}
	return byteSize(*s.value)
}

// Set reads the value.
func (s *size) Set(text string) error {
	number, unit := strings.ToUpper(strings.TrimSpace(text)), 1
	for _, u := range []struct {
		suffix string
		bytes  int
	}{{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"KB", 1 << 10}, {"MB", 1 << 20}, {"K", 1 << 10}, {"M", 1 << 20}, {"B", 1}} {
		if before, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || n*uint64(unit) > math.MaxInt32 {
		return fmt.Errorf("a size is a number of bytes, or a number with KB or MB, such as 64KB")
	}
	v := int(n) * unit
	s.value = &v
	return nil
}

func byteSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// parseAttribute reads name=value or name:Type=value.
func parseAttribute(text string) (name string, a client.Attribute, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", a, usage("an attribute is name=value or name:Number=1, not %q", text)
	}
	a = client.Attribute{Type: "String", Value: value}
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		for _, t := range []string{"String", "Number", "Binary"} {
			if strings.EqualFold(name[i+1:], t) {
				return name[:i], client.Attribute{Type: t, Value: value}, nil
			}
		}
	}
	return name, a, nil
}

// parsePairs reads key=value.
func parsePairs(what string, all []string) (map[string]string, error) {
	if len(all) == 0 {
		return nil, nil
	}
	pairs := map[string]string{}
	for _, text := range all {
		k, v, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage("a %s is key=value, not %q", what, text)
		}
		pairs[k] = v
	}
	return pairs, nil
}
