package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

// mayImport says for each package which packages of this module its shipped code may import; a star stands for one
// element of a path. Imports point inward: hosts, dialects, broker, rules and log, events. Tests may look outward.
var mayImport = map[string][]string{
	"events":                      {},
	"internal/fault":              {},
	"projections":                 {"events", "internal/queue"}, // what is derived of a state needs the state
	"projections/projectionstest": {"projections"},
	"internal/queue":              {"events", "internal/fault"},
	"internal/auth":               {"events", "internal/fault", "internal/eventlog"},
	"internal/client":             {"internal/fault", "internal/auth"}, // it signs with the scheme's one file

	"internal/eventlog":              {"events", "internal/fault"},
	"internal/eventlog/eventlogtest": {"events", "internal/fault", "internal/eventlog"},
	"internal/envelope":              {"events", "internal/fault", "internal/eventlog"},
	"internal/envelope/envelopetest": {"events", "internal/fault", "internal/envelope"},

	"internal/views":  {"events", "internal/eventlog", "projections"},
	"internal/broker": {"events", "internal/fault", "internal/eventlog", "internal/envelope", "internal/queue", "projections"},
	"internal/sweep": {"events", "internal/fault", "internal/eventlog", "internal/envelope", "internal/queue", "projections", "internal/broker",
		"internal/views"},

	"internal/watch": {"events", "internal/fault", "internal/broker", "internal/api"},

	"internal/api":     {"events", "internal/fault", "internal/auth", "internal/broker"},
	"internal/api/*":   {"events", "internal/fault", "internal/auth", "internal/broker", "internal/api"},
	"internal/console": {"events", "internal/fault", "internal/auth", "internal/broker", "internal/api", "projections"},

	// The furniture: each world's stores and keys meet the contracts and know nothing of each other.
	"internal/*/store":       {"events", "internal/fault", "internal/eventlog", "projections"},
	"internal/*/keys":        {"events", "internal/fault", "internal/envelope"},
	"internal/aws/storetest": {},
	"internal/aws/consumer":  {"events", "internal/eventlog", "internal/views", "internal/aws/stream", "projections"},
	"internal/aws/stream":    {"events", "internal/fault", "internal/eventlog", "internal/envelope", "projections"},

	"internal/aws/account": {},
	"internal/aws/awstest": {}, // it drives programs from outside
	"internal/aws/host": {"events", "internal/fault", "internal/eventlog", "internal/envelope", "internal/auth", "internal/broker",
		"internal/api", "internal/sweep", "internal/views", "projections", "internal/aws/*"},
	"internal/local/host": {"events", "internal/fault", "internal/eventlog", "internal/envelope", "internal/auth", "internal/broker",
		"internal/api", "internal/api/*", "internal/sweep", "internal/views", "internal/console", "internal/watch", "projections", "internal/local/*"},

	// It verifies a store from outside the broker, and so needs to know what the broker keeps.
	"internal/local/audit": {"events", "internal/fault", "internal/eventlog", "internal/envelope", "internal/queue", "internal/broker",
		"internal/local/store"},
	// Administration of a data directory: the server's socket, or the store itself.
	"internal/local/admin": {"events", "internal/fault", "internal/eventlog", "internal/auth", "internal/broker", "internal/sweep", "internal/views", "projections",
		"internal/local/store", "internal/local/keys"},

	"functions/*":  {"internal/aws/host", "internal/api/*", "internal/sweep", "projections"},
	"internal/cli": {"events", "internal/fault", "internal/auth", "internal/client", "internal/local/*", "internal/aws/*", "internal/sweep", "internal/watch", "internal/views", "projections"},
	"cmd/leaselog": {"internal/cli", "internal/local/host"},

	// What drives the whole from outside.
	"internal/sim": {"events", "internal/fault", "internal/eventlog", "internal/eventlog/eventlogtest", "internal/envelope",
		"internal/queue", "internal/broker", "internal/sweep", "internal/local/*", "internal/views", "projections"},
	"bench": {"events", "internal/fault", "internal/eventlog", "internal/envelope", "internal/queue", "internal/broker",
		"internal/api/*", "internal/client", "internal/local/*"},
	"accept":            {},
	"internal/archtest": {},
	"scripts/*":         {"internal/aws/awstest"},
}

// confined are libraries that may be imported in one place only, by tests too.
var confined = []struct{ prefix, only, why string }{
	{"github.com/aws/", "internal/aws/*", "the same rules run without AWS, so what they need of it goes behind a contract"},
	{"github.com/cockroachdb/pebble", "internal/local/store", "the embedded store can be replaced only while one package knows it"},
	{"github.com/prometheus", "internal/watch", "the broker and the APIs tell an interface of their own what happens, so that who counts can be replaced"},
	{"go.opentelemetry.io", "internal/watch", "spans are made of what a request was, not along its way"},
}

// The inner packages, whose shipped code is bound further.
var (
	silent = []string{"internal/broker", "internal/queue", "internal/eventlog", "internal/envelope", "internal/fault", "events", "projections"}
	pure   = []string{"internal/queue", "internal/eventlog", "internal/fault", "events", "projections"}
)

// forbidden are libraries that shipped code of some packages may not import.
var forbidden = []struct {
	in   []string
	path string
	why  string
}{
	{silent, "net/http", "a use case serves many dialects; speak HTTP in internal/api or in a host"},
	{pure, "math/rand", chance}, {pure, "math/rand/v2", chance}, {pure, "crypto/rand", chance},
}

const chance = "the same commands must give the same events in every replay; take what is random as an argument"

// clocks are the names of package time that read the clock or wait for it.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// importTable finds imports inside the module that the table does not have.
func importTable(t *tree) (breaches []string) {
	for dir, files := range t.packages() {
		may, known := row(dir)
		if !known {
			breaches = append(breaches, fmt.Sprintf("%s: add the package to mayImport in internal/archtest with what it may import", dir))
			continue
		}
		for _, f := range files {
			for _, s := range f.Imports {
				target, inside := strings.CutPrefix(importPath(s), module)
				if inside && !f.test && !matches(may, target) {
					breaches = append(breaches, fmt.Sprintf("%s: %s may not import %s: imports point inward; turn the need into an argument or an interface of %s, "+
						"or change mayImport in internal/archtest with a reason", t.at(s), dir, target, dir))
				}
			}
		}
	}
	return breaches
}

// row finds a package in the table: its own line first, then one with a star.
func row(dir string) ([]string, bool) {
	if may, ok := mayImport[dir]; ok {
		return may, true
	}
	for _, pattern := range slices.Sorted(maps.Keys(mayImport)) {
		if ok, _ := path.Match(pattern, dir); ok {
			return mayImport[pattern], true
		}
	}
	return nil, false
}

func matches(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, dir); return ok })
}

// libraries finds imports of libraries outside of the places that may have them.
func libraries(t *tree) (breaches []string) {
	for _, f := range t.files {
		for _, s := range f.Imports {
			p := importPath(s)
			for _, c := range confined {
				if strings.HasPrefix(p, c.prefix) && !matches([]string{c.only}, f.dir) {
					breaches = append(breaches, fmt.Sprintf("%s: import %s in %s only: %s", t.at(s), p, c.only, c.why))
				}
			}
			for _, b := range forbidden {
				if p == b.path && !f.test && slices.Contains(b.in, f.dir) {
					breaches = append(breaches, fmt.Sprintf("%s: %s may not import %s: %s", t.at(s), f.dir, p, b.why))
				}
			}
		}
	}
	return breaches
}

// purity finds clocks and goroutines in packages that must give the same answer in every replay.
func purity(t *tree) (breaches []string) {
	for _, f := range t.files {
		if f.test || !slices.Contains(pure, f.dir) {
			continue
		}
		f.calls("time", func(s *ast.SelectorExpr) {
			if slices.Contains(clocks, s.Sel.Name) {
				breaches = append(breaches, fmt.Sprintf("%s: %s may not use time.%s: take the instant as an argument", t.at(s), f.dir, s.Sel.Name))
			}
		})
		ast.Inspect(f.File, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				breaches = append(breaches, fmt.Sprintf("%s: %s may not start goroutines: its order must be the caller's", t.at(g), f.dir))
			}
			return true
		})
	}
	return breaches
}
