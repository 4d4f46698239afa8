package awstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Infra deploys infra/ as a stack of that name and gives the stack's outputs. The deployment has the stack's name too,
// unless a parameter like "Deployment=other" says otherwise.
func (a *AWS) Infra(ctx context.Context, stack string, parameters ...string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, deployTimeout)
	defer cancel()
	if !slices.ContainsFunc(parameters, func(p string) bool { return strings.HasPrefix(p, "Deployment=") }) {
		parameters = append(parameters, "Deployment="+stack)
	}
	args := []string{"deploy", "--template-file", filepath.Join(a.root, "infra/template.yaml"), "--stack-name", stack,
		"--no-fail-on-empty-changeset", "--no-progressbar", "--parameter-overrides"}
	cmd, err := a.sam(ctx, append(args, parameters...)...)
	if err != nil {
		return nil, err
	}
	if out, err := output(cmd, (*exec.Cmd).Start); err != nil {
		return nil, err
	} else if !strings.Contains(out, "Successfully created/updated stack") && !strings.Contains(out, "No changes to deploy") {
		return nil, fmt.Errorf("%s: says neither that it has changed the stack nor that it has not:\n%s", cmd.Args, out)
	}
	return a.outputs(ctx, stack)
}

// Deploy makes a stack of a template whose functions lie beside it. They run in LocalStack, which knows no HTTP APIs.
func (a *AWS) Deploy(ctx context.Context, stack, template string, parameters ...string) error {
	ctx, cancel := context.WithTimeout(ctx, deployTimeout)
	defer cancel()
	args := []string{"deploy", "--template-file", template, "--stack-name", stack, "--resolve-s3", "--capabilities", "CAPABILITY_IAM",
		"--no-progressbar", "--parameter-overrides"}
	cmd, err := a.sam(ctx, append(args, parameters...)...)
	if err == nil {
		_, err = output(cmd, (*exec.Cmd).Start)
	}
	return err
}

// outputs are what a stack tells of itself.
func (a *AWS) outputs(ctx context.Context, stack string) (map[string]string, error) {
	cmd, err := a.sam(ctx, "list", "stack-outputs", "--stack-name", stack, "--output", "json")
	if err != nil {
		return nil, err
	}
	text, err := output(cmd, (*exec.Cmd).Start)
	if err != nil {
		return nil, err
	}
	var list []struct{ OutputKey, OutputValue string }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.Args, err)
	}
	all := map[string]string{}
	for _, o := range list {
		all[o.OutputKey] = o.OutputValue
	}
	return all, nil
}

// Build compiles all functions for this machine's processor into a folder, with the template beside them.
func (a *AWS) Build(ctx context.Context, dir string) error {
	_, err := a.script(ctx, installTimeout, "scripts/functions.sh", runtime.GOARCH, dir)
	return err
}

// Functions says which functions run, and how.
type Functions struct {
	// Dir is where Build has put them.
	Dir string
	// Env are values for variables that the template declares; AWS_ENDPOINT_URL has one by itself.
	Env map[string]string
	// Parameters are values for the template's parameters.
	Parameters map[string]string
}

// StartAPI serves the template's HTTP API at the URL that it gives, each function in a container of its own that is
// kept. The caller stops the process.
func (a *AWS) StartAPI(ctx context.Context, f Functions) (url string, p *Process, err error) {
	port, err := a.place.port(ctx)
	if err != nil {
		return "", nil, err
	}
	cmd, err := a.local(ctx, f, "start-api", "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--warm-containers", "LAZY")
	if err != nil {
		return "", nil, err
	}
	if p, err = begin("sam local start-api", cmd, a.place.start); err != nil {
		return "", nil, err
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := await(ctx, url, p); err != nil {
		return "", nil, errors.Join(err, p.Stop())
	}
	return url, p, nil
}

// Invoke runs a function once, in a fresh container, with the event in a file, and gives its answer. SAM says nothing
// of a function that fails, so the error is made of the answer.
func (a *AWS) Invoke(ctx context.Context, f Functions, name, event string) ([]byte, error) {
	event, err := filepath.Abs(event)
	if err != nil {
		return nil, err
	}
	cmd, err := a.local(ctx, f, "invoke", name, "--event", event)
	if err != nil {
		return nil, err
	}
	answer, err := output(cmd, a.place.start)
	if err != nil {
		return nil, err
	}
	var failure struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal([]byte(answer), &failure); failure.Type != "" || failure.Message != "" {
		return nil, fmt.Errorf("the function %s: %s: %s", name, failure.Type, failure.Message)
	}
	return []byte(strings.TrimSpace(answer)), nil
}

// local is `sam local` where the containers are.
func (a *AWS) local(ctx context.Context, f Functions, args ...string) (*exec.Cmd, error) {
	env := map[string]string{"AWS_ENDPOINT_URL": a.ContainerEndpoint}
	for k, v := range f.Env {
		env[k] = v
	}
	text, err := json.Marshal(map[string]any{"Parameters": env})
	if err != nil {
		return nil, err
	}
	vars := filepath.Join(f.Dir, "env.json")
	if err := os.WriteFile(vars, text, 0o600); err != nil {
		return nil, err
	}
	args = append([]string{"local"}, args...)
	args = append(args, "--template", filepath.Join(f.Dir, "template.yaml"), "--env-vars", vars)
	args = append(args, a.place.samOptions()...)
	if len(f.Parameters) > 0 {
		args = append(args, "--parameter-overrides")
		for _, k := range slices.Sorted(maps.Keys(f.Parameters)) {
			args = append(args, k+"="+f.Parameters[k])
		}
	}
	return a.sam(ctx, args...)
}

// sam is SAM CLI, pinned, with LocalStack for all that it asks of AWS.
func (a *AWS) sam(ctx context.Context, args ...string) (*exec.Cmd, error) {
	python, err := a.script(ctx, installTimeout, "scripts/sam/install.sh")
	if err != nil {
		return nil, err
	}
	args = append([]string{filepath.Join(a.root, "scripts/sam/run.py")}, args...)
	cmd := exec.CommandContext(ctx, strings.TrimSpace(python), args...)
	cmd.Env = append(a.Env(), a.place.samEnv()...)
	return cmd, nil
}
