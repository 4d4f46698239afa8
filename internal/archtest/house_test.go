package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const (
	fileLinesMax     = 500 // a longer file holds more than one idea
	functionLinesMax = 70  // a longer function cannot be read at one look
)

// buckets are names that say nothing, so that everything ends up there.
var buckets = []string{"common", "util", "utils", "types", "models", "helpers"}

// obvious are methods whose meaning the language fixes.
var obvious = []string{"String", "Error", "Unwrap"}

// sizes finds long files and functions. Tests and suites are free: a table of cases is long and easy.
func sizes(t *tree) (breaches []string) {
	for _, f := range t.files {
		if f.test || f.generated || f.imports()["testing"] == "testing" {
			continue
		}
		if f.lines > fileLinesMax {
			breaches = append(breaches, fmt.Sprintf("%s: split the file by idea: %d lines, at most %d", f.path, f.lines, fileLinesMax))
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1; n > functionLinesMax {
				breaches = append(breaches, fmt.Sprintf("%s: split %s by step: %d lines, at most %d", t.at(fn), fn.Name.Name, n, functionLinesMax))
			}
		}
	}
	return breaches
}

// names finds packages whose names say nothing.
func names(t *tree) (breaches []string) {
	for dir, files := range t.packages() {
		if slices.Contains(buckets, path.Base(dir)) || slices.Contains(buckets, files[0].Name.Name) {
			breaches = append(breaches, fmt.Sprintf("%s: name the package after what it gives, not %s", dir, path.Base(dir)))
		}
	}
	return breaches
}

// packageComments finds packages that do not say what they are for.
func packageComments(t *tree) (breaches []string) {
	for dir, files := range t.packages() {
		if !slices.ContainsFunc(files, introduces) {
			breaches = append(breaches, fmt.Sprintf("%s: begin one file with a sentence: \"// Package %s …\", or \"// Command …\" for a main", dir, path.Base(dir)))
		}
	}
	return breaches
}

func introduces(f *source) bool {
	doc := strings.TrimSpace(f.Doc.Text())
	return strings.Contains(doc, ".") &&
		(strings.HasPrefix(doc, "Package "+f.Name.Name+" ") || f.Name.Name == "main" && strings.HasPrefix(doc, "Command "))
}

// docComments finds exported names without a comment.
func docComments(t *tree) (breaches []string) {
	for dir, files := range t.packages() {
		documented := documentedTypes(files)
		for _, f := range files {
			if f.test || f.generated {
				continue
			}
			for _, n := range undocumented(f, documented) {
				breaches = append(breaches, fmt.Sprintf("%s: say in a comment what %s.%s promises, or do not export it", t.at(n), dir, n.Name))
			}
		}
	}
	return breaches
}

// documentedTypes are the types of a package that have a comment; it speaks for their constants too.
func documentedTypes(files []*source) map[string]bool {
	all := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				if s := s.(*ast.TypeSpec); g.Doc != nil || s.Doc != nil {
					all[s.Name.Name] = true
				}
			}
		}
	}
	return all
}

func undocumented(f *source, documented map[string]bool) (missing []*ast.Ident) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && !slices.Contains(obvious, d.Name.Name) && exportedReceiver(d) {
				missing = append(missing, d.Name)
			}
		case *ast.GenDecl:
			missing = append(missing, undocumentedSpecs(d, documented)...)
		}
	}
	return missing
}

// exportedReceiver is true for functions, and for methods that other packages can name.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if x, ok := n.(*ast.Ident); ok {
			exported = x.IsExported()
			return false
		}
		return true
	})
	return exported
}

func undocumentedSpecs(d *ast.GenDecl, documented map[string]bool) (missing []*ast.Ident) {
	spoken := false // the constants' type is documented; a line without a type has the type of the one above
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
				missing = append(missing, s.Name)
			}
		case *ast.ValueSpec:
			if x, ok := s.Type.(*ast.Ident); ok {
				spoken = documented[x.Name]
			} else if s.Values != nil {
				spoken = false
			}
			if d.Doc != nil || s.Doc != nil || s.Comment != nil || d.Tok == token.CONST && spoken {
				continue
			}
			for _, name := range s.Names {
				if name.IsExported() {
					missing = append(missing, name)
				}
			}
		}
	}
	return missing
}

// inits finds init functions: what runs before main can neither be configured nor fail with a sentence.
func inits(t *tree) (breaches []string) {
	for _, f := range t.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				breaches = append(breaches, fmt.Sprintf("%s: do this in a constructor, not in init", t.at(fn)))
			}
		}
	}
	return breaches
}

// sleeps finds tests that wait for real. In a package whose tests run in bubbles of testing/synctest time is not real.
func sleeps(t *tree) (breaches []string) {
	asleep, bubbles := map[string]bool{}, map[string]bool{}
	for _, f := range t.files {
		if f.test && f.imports()["synctest"] == "testing/synctest" {
			bubbles[path.Dir(f.path)] = true
		}
	}
	for _, f := range t.files {
		if !f.test || bubbles[path.Dir(f.path)] {
			continue
		}
		f.calls("time", func(s *ast.SelectorExpr) {
			if s.Sel.Name != "Sleep" {
				return
			}
			asleep[f.path] = true
			if t.sleep[f.path] == "" {
				breaches = append(breaches, fmt.Sprintf("%s: test what waits in testing/synctest, or wait for the event itself; never sleep", t.at(s)))
			}
		})
	}
	for p := range t.sleep {
		if !asleep[p] {
			breaches = append(breaches, fmt.Sprintf("%s does not sleep: take it off the list maySleep", p))
		}
	}
	return breaches
}

// skips finds tests that can leave without a verdict. A rapid.T's Skip discards a drawn case, which is no such thing.
func skips(t *tree) (breaches []string) {
	for _, f := range t.files {
		if !f.test {
			continue
		}
		for _, d := range f.Decls {
			drawn := map[string]bool{}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					rapid := isRapid(n.Type)
					for _, name := range n.Names {
						drawn[name.Name] = rapid
					}
				case *ast.CallExpr:
					if x, ok := skipped(n); ok && !drawn[x.Name] {
						breaches = append(breaches, fmt.Sprintf("%s: a test passes or fails: make what it needs, or fail with a sentence that says what to install", t.at(n)))
					}
				}
				return true
			})
		}
	}
	return breaches
}

func isRapid(e ast.Expr) bool {
	p, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	s, ok := p.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "rapid"
}

func skipped(c *ast.CallExpr) (*ast.Ident, bool) {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
		return nil, false
	}
	x, ok := s.X.(*ast.Ident)
	return x, ok
}

// registries are the package registries' hosts. They are put together here so that this file does not name them.
var registries = []string{
	host("proxy", "golang", "org"), host("sum", "golang", "org"), host("pypi", "org"), host("pythonhosted", "org"),
	host("registry", "npmjs", "org"), host("crates", "io"), host("repo1", "maven", "org"), host("deb", "debian", "org"),
}

func host(labels ...string) string { return strings.Join(labels, ".") }

// locks are files whose hosts the tools write by themselves.
var locks = []string{"go.sum", "package-lock.json", "Cargo.lock"}

// hosts finds registries named in files that git keeps: which registry serves a package is the machine's to say.
func hosts(t *tree) (breaches []string) {
	for p, text := range t.tracked {
		if slices.Contains(locks, path.Base(p)) || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			for _, h := range registries {
				if bytes.Contains(line, []byte(h)) {
					breaches = append(breaches, fmt.Sprintf("%s:%d: name the package, not the registry's host", p, i+1))
				}
			}
		}
	}
	return breaches
}
