package host

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/projections"
)

// template is template.yaml with its functions of CloudFormation worked out.
type template struct {
	resources  map[string]any
	conditions map[string]bool
}

// readTemplate works the template out under conditions. A reference to a parameter or a resource stands for its name,
// and an import for the name of the output.
func readTemplate(t testing.TB, conditions map[string]bool) *template {
	t.Helper()
	return readTemplateFile(t, "template.yaml", conditions)
}

func readTemplateFile(t testing.TB, file string, conditions map[string]bool) *template {
	t.Helper()
	text, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	tp := &template{conditions: conditions}
	for i := 0; i < len(root.Content[0].Content); i += 2 {
		if root.Content[0].Content[i].Value == "Resources" {
			tp.resources = tp.value(root.Content[0].Content[i+1]).(map[string]any)
		}
	}
	return tp
}

var substituted = regexp.MustCompile(`\$\{([^}]+)\}`)

// none is what AWS::NoValue leaves behind.
type none struct{}

func (t *template) value(n *yaml.Node) any {
	switch n.Tag {
	case "!Ref":
		if n.Value == "AWS::NoValue" {
			return none{}
		}
		return n.Value
	case "!Sub":
		return substituted.ReplaceAllString(n.Value, "$1")
	case "!GetAtt":
		return n.Value
	case "!If":
		if t.conditions[n.Content[0].Value] {
			return t.value(n.Content[1])
		}
		return t.value(n.Content[2])
	}
	switch n.Kind {
	case yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			if v := t.value(n.Content[i+1]); v != (none{}) {
				all[n.Content[i].Value] = v
			}
		}
		if v, is := all["Fn::ImportValue"]; is {
			return strings.TrimPrefix(v.(string), "InfraStack-")
		}
		return all
	case yaml.SequenceNode:
		all := []any{}
		for _, c := range n.Content {
			if v := t.value(c); v != (none{}) {
				all = append(all, v)
			}
		}
		return all
	}
	return n.Value
}

// at follows names into a value.
func at(v any, names ...string) any {
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func list(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, s := range v {
			all = append(all, s.(string))
		}
	}
	return all
}

// of gives the properties of the resources of a type, by name.
func (t *template) of(kind string) map[string]any {
	all := map[string]any{}
	for name, r := range t.resources {
		if at(r, "Type") == kind {
			all[name] = at(r, "Properties")
		}
	}
	return all
}

// statement is one thing that a function may do.
type statement struct {
	actions, resources []string
	equals             map[string]any // StringEquals; no other condition is used
}

// statements are those of a function's own role.
func (t *template) statements(tb testing.TB, function string) (all []statement) {
	tb.Helper()
	for _, policy := range at(t.of("AWS::IAM::Role")[function+"Role"], "Policies").([]any) {
		for _, s := range at(policy, "PolicyDocument", "Statement").([]any) {
			equals, _ := at(s, "Condition", "StringEquals").(map[string]any)
			if c, _ := at(s, "Condition").(map[string]any); at(s, "Effect") != "Allow" || len(c) > 1 || len(c) == 1 && equals == nil {
				tb.Fatalf("%s: the test cannot judge %v", function, s)
			}
			all = append(all, statement{list(at(s, "Action")), list(at(s, "Resource")), equals})
		}
	}
	return all
}

// camel makes the name of a resource, and of an endpoint in Go, of a function's.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// scheduled are the functions that run by the clock.
func scheduled() map[string]bool {
	all := map[string]bool{ReportName: true}
	for _, c := range sweep.Chores() {
		all[c.Name] = true
	}
	return all
}

// TestLists holds the endpoints, chores and projections, the folders under functions/ and the resources in template.yaml to be the
// same, and each function to be nothing but wiring.
func TestLists(t *testing.T) {
	mains := map[string]string{}
	for _, e := range rest.Endpoints() {
		mains[e.Name] = "host.Serve(rest." + camel(e.Name) + ")"
	}
	for _, c := range sweep.Chores() {
		mains[c.Name] = "host.Tick(sweep." + strings.TrimPrefix(camel(c.Name), "Sweep") + ")"
	}
	mains[ReportName] = "host.Report()"
	for _, p := range projections.All() {
		mains[p.Name] = "host.Consume(projections." + strings.TrimPrefix(camel(p.Name), "Project") + ")"
	}
	functions := readTemplate(t, nil).of("AWS::Serverless::Function")
	if len(functions) != len(mains) {
		t.Errorf("template.yaml has %d functions, and there are %d endpoints, chores, projections and the report", len(functions), len(mains))
	}
	folders, err := filepath.Glob(functionsDir + "*")
	if err != nil || len(folders) != len(mains) {
		t.Errorf("functions/ has %d folders, and there are %d endpoints, chores and projections: %v", len(folders), len(mains), err)
	}
	for name, main := range mains {
		text, err := os.ReadFile(functionsDir + name + "/main.go")
		if lines := strings.Count(string(text), "\n"); err != nil || !strings.HasSuffix(string(text), "func main() { "+main+" }\n") || lines > 10 {
			t.Errorf("functions/%s/main.go must be %s in ten lines, not %d: %v", name, main, lines, err)
		}
		p := functions[camel(name)]
		if at(p, "CodeUri") != "functions/"+name+"/" || at(p, "Role") != camel(name)+"Role.Arn" || at(p, "FunctionName") != "AWS::StackName-"+name {
			t.Errorf("%s: CodeUri, Role or FunctionName of template.yaml is of another: %v", name, p)
		}
	}
}

// TestRoutes holds the API's routes to the endpoints': each has its own, and one for a queue's CRN that was decoded on the
// way, where it names a queue. Each event of functions/ is for its function's route.
func TestRoutes(t *testing.T) {
	c := &cloud{TB: t}
	functions := readTemplate(t, nil).of("AWS::Serverless::Function")
	for _, e := range rest.Endpoints() {
		want := map[string]string{"Route": e.Path}
		if strings.Contains(e.Path, "{queue_id}") {
			want["ByCRN"] = strings.Replace(e.Path, "{queue_id}", "{queue_id}/{name}", 1)
		}
		events, _ := at(functions[camel(e.Name)], "Events").(map[string]any)
		if len(events) != len(want) {
			t.Errorf("%s has routes %v, want %v", e.Name, events, want)
		}
		keys := []string{}
		for name, path := range want {
			p := at(events, name, "Properties")
			keys = append(keys, e.Method+" "+path)
			if at(events, name, "Type") != "HttpApi" || at(p, "Method") != e.Method || at(p, "Path") != path || at(p, "ApiId") != "Api" || at(p, "PayloadFormatVersion") != "2.0" {
				t.Errorf("%s: route %s is %v, want %s %s", e.Name, name, p, e.Method, path)
			}
		}
		ev := c.event(e.Name)
		if !slices.Contains(keys, ev.RouteKey) || ev.RequestContext.HTTP.Method != e.Method || ev.Version != "2.0" {
			t.Errorf("functions/%s/event.json is for %s", e.Name, ev.RouteKey)
		}
	}
	for name := range scheduled() {
		if at(functions[camel(name)], "Events", "Schedule", "Type") != "Schedule" {
			t.Errorf("%s has no schedule", name)
		}
	}
	for _, p := range projections.All() {
		source := at(functions[camel(p.Name)], "Events", "Changes")
		failures := list(at(source, "Properties", "FunctionResponseTypes"))
		if at(source, "Type") != "Kinesis" || at(source, "Properties", "Stream") != "StreamArn" || !slices.Equal(failures, []string{"ReportBatchItemFailures"}) {
			t.Errorf("%s does not read the stream, record by record: %v", p.Name, source)
		}
	}
}

// TestNoWildcards: nothing is allowed on everything, but to tell X-Ray, which knows no resources, and only while it is on.
func TestNoWildcards(t *testing.T) {
	var visit func(where string, v any) []string
	visit = func(where string, v any) (found []string) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				found = append(found, visit(where+"/"+name, inner)...)
			}
		case []any:
			for _, inner := range v {
				found = append(found, visit(where, inner)...)
			}
		case string:
			if strings.Contains(v, "*") {
				found = append(found, where)
			}
		}
		return found
	}
	for traced, want := range map[bool]int{false: 0, true: 1} {
		tp := readTemplate(t, map[string]bool{"Traced": traced, "CustomerKeys": true})
		found := append(visit("", tp.of("AWS::IAM::Role")), visit("", tp.of("AWS::IAM::ManagedPolicy"))...)
		if len(found) != want {
			t.Errorf("traced %v: %q", traced, found)
		}
	}
	for name, p := range readTemplate(t, nil).of("AWS::Serverless::Function") {
		if at(p, "Policies") != nil {
			t.Errorf("%s has policies beside its role's", name)
		}
	}
}

// TestAlarms: every function is watched for errors, throttles and slowness, and the API for what callers see.
func TestAlarms(t *testing.T) {
	tp := readTemplate(t, map[string]bool{"Notified": true})
	alarms := tp.of("AWS::CloudWatch::Alarm")
	for name := range tp.of("AWS::Serverless::Function") {
		for suffix, metric := range map[string]string{"Errors": "Errors", "Throttles": "Throttles", "Slow": "Duration"} {
			a := alarms[name+suffix]
			d, _ := at(a, "Dimensions").([]any)
			if len(d) != 1 || at(a, "MetricName") != metric || at(d[0], "Value") != name || len(list(at(a, "AlarmActions"))) != 1 {
				t.Errorf("%s%s: %v", name, suffix, a)
			}
		}
	}
	for _, p := range projections.All() {
		if n := camel(p.Name); at(alarms[n+"Late"], "MetricName") != "IteratorAge" || at(alarms[n+"SetAside"], "MetricName") != "SetAside" {
			t.Errorf("nobody hears when %s is behind, or sets a record aside", p.Name)
		}
	}
	for name := range scheduled() {
		if at(alarms[camel(name)+"NotRun"], "MetricName") != "SweptThrough" {
			t.Errorf("nobody hears when %s does not run", name)
		}
	}
	if at(alarms["ApiErrors"], "MetricName") != "5xx" {
		t.Error("the API has no alarm")
	}
}
