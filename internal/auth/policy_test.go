package auth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/fault"
)

// policy writes a document of statements.
func policy(statements ...string) []byte {
	return fmt.Appendf(nil, `{"version":"2024-01-01","statements":[%s]}`, strings.Join(statements, ","))
}

const orders, bills = "crn:queue:local:acme:queue/orders", "crn:queue:local:acme:queue/bills"

// TestPolicies: deny wins, default deny, both forms of each list, wildcards, batches.
func TestPolicies(t *testing.T) {
	const all = `"resources":["*"]`
	allow := func(rest string) string { return `{"effect":"allow",` + rest + `}` }
	deny := func(rest string) string { return `{"effect":"deny",` + rest + `}` }
	for _, c := range []struct {
		name       string
		statements []string
		action     Action
		resource   string
		want       bool
	}{
		{"allowed", []string{allow(`"actions":["queue:SendMessage"],` + all)}, SendMessage, orders, true},
		{"another action", []string{allow(`"actions":["queue:SendMessage"],` + all)}, DeleteMessage, orders, false},
		{"its resource", []string{allow(`"actions":["*"],"resources":["` + orders + `"]`)}, SendMessage, orders, true},
		{"another resource", []string{allow(`"actions":["*"],"resources":["` + orders + `"]`)}, SendMessage, bills, false},
		{"star", []string{allow(`"actions":["queue:*"],"resources":["crn:queue:*:acme:queue/or*"]`)}, SendMessage, orders, true},
		{"star over colons", []string{allow(`"actions":["queue:*"],"resources":["crn:*/orders"]`)}, SendMessage, orders, true},
		{"question mark", []string{allow(`"actions":["queue:*"],"resources":["crn:queue:local:acme:queue/order?"]`)}, SendMessage, orders, true},
		{"question mark is one", []string{allow(`"actions":["queue:*"],"resources":["crn:queue:local:acme:queue/orders?"]`)}, SendMessage, orders, false},
		{"case counts", []string{allow(`"actions":["queue:*"],"resources":["crn:queue:local:acme:queue/Orders"]`)}, SendMessage, orders, false},
		{"deny wins", []string{allow(`"actions":["*"],` + all), deny(`"actions":["queue:DeleteQueue"],` + all)}, DeleteQueue, orders, false},
		{"deny wins, first", []string{deny(`"actions":["queue:DeleteQueue"],` + all), allow(`"actions":["*"],` + all)}, DeleteQueue, orders, false},
		{"deny of another", []string{allow(`"actions":["*"],` + all), deny(`"actions":["queue:DeleteQueue"],` + all)}, SendMessage, orders, true},
		{"deny alone", []string{deny(`"actions":["queue:DeleteQueue"],` + all)}, SendMessage, orders, false},
		{"not actions", []string{allow(`"not_actions":["queue:Delete*","queue:PurgeQueue"],` + all)}, SendMessage, orders, true},
		{"not actions, named", []string{allow(`"not_actions":["queue:Delete*","queue:PurgeQueue"],` + all)}, PurgeQueue, orders, false},
		{"not resources", []string{allow(`"actions":["*"],"not_resources":["` + orders + `"]`)}, SendMessage, bills, true},
		{"not resources, named", []string{allow(`"actions":["*"],"not_resources":["` + orders + `"]`)}, SendMessage, orders, false},
		{"deny not resources", []string{allow(`"actions":["*"],` + all), deny(`"actions":["*"],"not_resources":["` + orders + `"]`)}, SendMessage, bills, false},

		{"a batch by its single form", []string{allow(`"actions":["queue:SendMessage"],` + all)}, SendMessageBatch, orders, true},
		{"a batch by its own name", []string{allow(`"actions":["queue:SendMessageBatch"],` + all)}, SendMessageBatch, orders, true},
		{"a single by the batch's name", []string{allow(`"actions":["queue:SendMessageBatch"],` + all)}, SendMessage, orders, false},
		{"a batch denied by its single form", []string{allow(`"actions":["*"],` + all), deny(`"actions":["queue:DeleteMessage"],` + all)}, DeleteMessageBatch, orders, false},
		{"a batch denied alone", []string{allow(`"actions":["*"],` + all), deny(`"actions":["queue:DeleteMessageBatch"],` + all)}, DeleteMessageBatch, orders, false},
		{"the single beside a denied batch", []string{allow(`"actions":["*"],` + all), deny(`"actions":["queue:DeleteMessageBatch"],` + all)}, DeleteMessage, orders, true},
		{"not actions and batches", []string{allow(`"not_actions":["queue:ChangeMessageVisibility"],` + all)}, ChangeMessageVisibilityBatch, orders, false},
		{"another service", []string{allow(`"actions":["kms:Decrypt"],` + all)}, SendMessage, orders, false},
	} {
		p, err := ParsePolicies([][]byte{policy(c.statements...)})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := p.Allow(c.action, c.resource); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if p.Allow(c.action, c.resource) && !p.AllowSomewhere(c.action) {
			t.Errorf("%s: allowed here and nowhere", c.name)
		}
	}
}

// TestPoliciesOfOneKey are judged together; without any there are no bounds.
func TestPoliciesOfOneKey(t *testing.T) {
	two, err := ParsePolicies([][]byte{
		policy(`{"effect":"allow","actions":["*"],"resources":["*"]}`),
		policy(`{"id":"never","effect":"deny","actions":["queue:PurgeQueue"],"resources":["*"]}`),
	})
	if err != nil || two.Allow(PurgeQueue, orders) || two.AllowSomewhere(PurgeQueue) || !two.Allow(SendMessage, orders) {
		t.Errorf("%+v, %v", two, err)
	}
	none, err := ParsePolicies(nil)
	if err != nil || none != nil || !(Caller{}).May(PurgeQueue, orders) || !(Caller{}).MaySomewhere(PurgeQueue) || (Caller{}).Limited() {
		t.Errorf("%+v, %v", none, err)
	}
}

// TestBadPolicies are refused with the place.
func TestBadPolicies(t *testing.T) {
	statement := func(s string) []byte { return policy(s) }
	for name, c := range map[string]struct {
		text []byte
		part string
	}{
		"not JSON":            {[]byte("allow all"), "not a policy in JSON"},
		"nothing":             {nil, "not a policy in JSON"},
		"more behind it":      {append(policy(`{"effect":"allow","actions":["*"],"resources":["*"]}`), "{}"...), "not a policy in JSON"},
		"version":             {[]byte(`{"version":"2012-10-17","statements":[]}`), "2024-01-01"},
		"no statements":       {policy(), "1 to 50 statements"},
		"misspelt field":      {statement(`{"effect":"deny","action":["*"],"resources":["*"]}`), "action"},
		"field twice":         {statement(`{"effect":"deny","effect":"allow","actions":["*"],"resources":["*"]}`), "duplicate"},
		"effect":              {statement(`{"effect":"Allow","actions":["*"],"resources":["*"]}`), `effect must be`},
		"no actions":          {statement(`{"effect":"allow","resources":["*"]}`), "actions or not_actions"},
		"both actions":        {statement(`{"effect":"allow","actions":["*"],"not_actions":["*"],"resources":["*"]}`), "actions or not_actions"},
		"empty actions":       {statement(`{"effect":"allow","actions":[],"resources":["*"]}`), "actions or not_actions"},
		"no resources":        {statement(`{"effect":"allow","actions":["*"]}`), "resources or not_resources"},
		"both resources":      {statement(`{"effect":"allow","actions":["*"],"resources":["*"],"not_resources":["*"]}`), "resources or not_resources"},
		"unknown action":      {statement(`{"effect":"deny","actions":["queue:SendMesage"],"resources":["*"]}`), `"queue:SendMesage" does not exist; actions are queue:CreateQueue`},
		"a case":              {statement(`{"effect":"deny","actions":["queue:sendMessage"],"resources":["*"]}`), "does not exist"},
		"a pattern of none":   {statement(`{"effect":"deny","actions":["queue:Move*"],"resources":["*"]}`), "does not exist"},
		"no service":          {statement(`{"effect":"deny","actions":["SendMessage"],"resources":["*"]}`), "does not exist"},
		"resource":            {statement(`{"effect":"deny","actions":["*"],"resources":["orders"]}`), "is no CRN"},
		"a string for a list": {statement(`{"effect":"deny","actions":"*","resources":["*"]}`), "not a policy in JSON"},
		"long pattern":        {statement(`{"effect":"deny","actions":["*"],"resources":["*` + strings.Repeat("a", 512) + `"]}`), "512"},
		"long":                {[]byte(strings.Repeat(" ", policyBytesMax+1)), "16384"},
	} {
		_, err := ParsePolicies([][]byte{c.text})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Of(err).Message, c.part) || !strings.HasPrefix(fault.Of(err).Message, "policy 1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParsePolicies(make([][]byte, policiesMax+1)); !fault.Is(err, fault.Invalid) {
		t.Errorf("too many: %v", err)
	}
}

// TestPatterns compares the matcher with a slow and obvious one.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*", "a", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false},
		{"**", "", true}, {"*a*", "bab", true}, {"?", "", false}, {"?", "a", true}, {"a?c", "abc", true}, {"*?", "", false}, {"*?", "a", true},
		{"a*b*c", "aXbXbc", true}, {"*ab", "aab", true}, {"abc", "abc", true}, {"abc", "ab", false}, {"ab", "abc", false},
	} {
		if got := matches(c.pattern, c.text); got != c.want || slowly(c.pattern, c.text) != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.text, got)
		}
	}
	long := strings.Repeat("a", 2000)
	if matches(strings.Repeat("a*", 200)+"b", long) { // a backtracking matcher would not come back
		t.Error("matched")
	}
}

func slowly(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return slowly(pattern[1:], text) || text != "" && slowly(pattern, text[1:])
	}
	return text != "" && (pattern[0] == '?' || pattern[0] == text[0]) && slowly(pattern[1:], text[1:])
}
