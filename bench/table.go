//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
)

// row is one line of the table: what was measured at the base and at ours, what their relation is, what was demanded.
type row struct {
	What, Base, Ours string
	Ratio            string
	Demand           string
	Verdict          string
}

// The verdicts of a row. One without a demand has none.
const (
	good     = "ok"
	bad      = "MISSED"
	noResult = "NO RESULT"
)

func verdict(ok bool) string {
	if ok {
		return good
	}
	return bad
}

// missed counts the rows that are not as demanded, those without a result included.
func missed(rows []row) (n int) {
	for _, r := range rows {
		if r.Verdict == bad || r.Verdict == noResult {
			n++
		}
	}
	return n
}

// printTable aligns the columns: the first to the left, figures to the right.
func printTable(out io.Writer, rows []row) {
	lines := [][]string{{"", "base", "leaselog", "ratio (runs)", "demanded", ""}}
	for _, r := range rows {
		lines = append(lines, []string{r.What, r.Base, r.Ours, r.Ratio, r.Demand, r.Verdict})
	}
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, s := range l {
			width[i] = max(width[i], len([]rune(s)))
		}
	}
	for _, l := range lines {
		var b strings.Builder
		for i, s := range l {
			pad := strings.Repeat(" ", width[i]-len([]rune(s)))
			if i == 0 || i >= 4 {
				b.WriteString(s + pad + "  ")
			} else {
				b.WriteString(pad + s + "  ")
			}
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
}

// rate is a throughput for the table.
func rate(v float64) string { return fmt.Sprintf("%.0f/s", v) }
