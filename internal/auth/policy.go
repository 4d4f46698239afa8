package auth

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/leaselog/leaselog/internal/fault"
)

// policyVersion is the one version of the language (API page, section 2.3).
const policyVersion = "2024-01-01"

// Bounds of a policy: each is read for every request of its key, and kept in the key's record.
const (
	policyBytesMax   = 16 << 10
	policiesMax      = 10
	statementsMax    = 50
	patternsMax      = 100
	patternBytesMax  = 512
	policiesBytesMax = 64 << 10 // of all documents of a key
)

// Policies are the documents of one key, ready to judge. A deny anywhere wins; what nothing allows is denied.
type Policies struct{ statements []statement }

// document is a policy as it is written.
type document struct {
	Version    string      `json:"version"`
	Statements []statement `json:"statements"`
}

// statement speaks of actions on resources. Of each pair of fields exactly one is there; the not_ form means all but
// those. In patterns * stands for any characters, also none, and ? for one.
type statement struct {
	ID           string   `json:"id"` // for people
	Effect       string   `json:"effect"`
	Actions      []string `json:"actions"`
	NotActions   []string `json:"not_actions"`
	Resources    []string `json:"resources"`
	NotResources []string `json:"not_resources"`
}

const (
	effectAllow = "allow"
	effectDeny  = "deny"
)

// ParsePolicies reads the documents of a key. None gives nil, which allows everything. Faults: Invalid, with the place.
//
// It is strict: an unknown or repeated field, or an action that does not exist, is refused, because a policy that does
// not say what its author meant is worse than none.
func ParsePolicies(documents [][]byte) (*Policies, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	if len(documents) > policiesMax {
		return nil, fault.New(fault.Invalid, "a key has at most %d policies, not %d", policiesMax, len(documents))
	}
	p, size := new(Policies), 0
	for i, text := range documents {
		d, err := parseDocument(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "policy %d: %v", i+1, err)
		}
		p.statements = append(p.statements, d.Statements...)
		size += len(text)
	}
	if size > policiesBytesMax {
		return nil, fault.New(fault.Invalid, "the policies of a key have at most %d bytes together, not %d", policiesBytesMax, size)
	}
	return p, nil
}

func parseDocument(text []byte) (d document, err error) {
	if len(text) > policyBytesMax {
		return d, sayf("it has %d bytes; at most %d are allowed", len(text), policyBytesMax)
	}
	if err := json.Unmarshal(text, &d, json.RejectUnknownMembers(true)); err != nil {
		return d, sayf("it is not a policy in JSON: %s", plainly(err))
	}
	if d.Version != policyVersion {
		return d, sayf("version must be %q, not %q", policyVersion, d.Version)
	}
	if n := len(d.Statements); n < 1 || n > statementsMax {
		return d, sayf("statements must hold 1 to %d statements, not %d", statementsMax, n)
	}
	for i, s := range d.Statements {
		if err := s.check(); err != nil {
			return d, sayf("statement %d: %v", i+1, err)
		}
	}
	return d, nil
}

// plainly drops the library's own name from its message.
func plainly(err error) string {
	_, message, ok := strings.Cut(err.Error(), "json: ")
	if !ok {
		return err.Error()
	}
	return message
}

func (s statement) check() error {
	if s.Effect != effectAllow && s.Effect != effectDeny {
		return sayf("effect must be %q or %q, not %q", effectAllow, effectDeny, s.Effect)
	}
	if (len(s.Actions) > 0) == (len(s.NotActions) > 0) {
		return errors.New("give either actions or not_actions, and not empty")
	}
	if (len(s.Resources) > 0) == (len(s.NotResources) > 0) {
		return errors.New("give either resources or not_resources, and not empty")
	}
	for _, list := range [][]string{s.Actions, s.NotActions, s.Resources, s.NotResources} {
		if len(list) > patternsMax || slices.ContainsFunc(list, func(p string) bool { return p == "" || len(p) > patternBytesMax }) {
			return sayf("a list has at most %d patterns of 1 to %d characters", patternsMax, patternBytesMax)
		}
	}
	for _, p := range slices.Concat(s.Actions, s.NotActions) {
		if !names(p) {
			return sayf("the action %q does not exist; actions are %s", p, actionNames())
		}
	}
	for _, p := range slices.Concat(s.Resources, s.NotResources) {
		if !strings.HasPrefix(p, "crn:") && !strings.HasPrefix(p, "*") {
			return sayf("the resource %q is no CRN; write crn:queue:<region>:<account>:queue/<name>, with * and ? where you like, or * for all", p)
		}
	}
	return nil
}

func actionNames() string {
	var all []string
	for _, a := range Actions {
		if a.Batch == "" {
			all = append(all, a.Name)
		}
	}
	return strings.Join(all, ", ")
}

// Allow says whether an action on a resource is allowed: by a statement, and denied by none.
func (p *Policies) Allow(a Action, resource string) bool {
	allowed := false
	for i := range p.statements {
		s := &p.statements[i]
		if !s.onAction(a) || !s.onResource(resource) {
			continue
		}
		if s.Effect == effectDeny {
			return false
		}
		allowed = true
	}
	return allowed
}

// AllowSomewhere says whether a resource can exist on which the action is allowed. It looks at the statements that
// allow it and at those that deny it everywhere; it may say yes where the others together leave nothing.
func (p *Policies) AllowSomewhere(a Action) bool {
	allowed := false
	for i := range p.statements {
		s := &p.statements[i]
		switch {
		case !s.onAction(a):
		case s.Effect == effectAllow:
			allowed = true
		case slices.Contains(s.Resources, "*"):
			return false
		}
	}
	return allowed
}

func (s *statement) onAction(a Action) bool {
	if len(s.NotActions) > 0 {
		return !slices.ContainsFunc(s.NotActions, a.matches)
	}
	return slices.ContainsFunc(s.Actions, a.matches)
}

func (s *statement) onResource(resource string) bool {
	is := func(pattern string) bool { return matches(pattern, resource) }
	if len(s.NotResources) > 0 {
		return !slices.ContainsFunc(s.NotResources, is)
	}
	return slices.ContainsFunc(s.Resources, is)
}

// matches compares a text with a pattern. It goes back to the last star only, so it takes at most len(pattern) times
// len(text) steps, whatever the pattern.
func matches(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
