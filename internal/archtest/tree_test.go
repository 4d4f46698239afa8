// Package archtest holds the shape of this repository as tests: who may import whom, and the house rules that a
// program can check. Each rule is a function from a tree to sentences, one for each breach, that say what to do.
package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

const module = "github.com/leaselog/leaselog/"

// tree is the repository as the rules see it: parsed, so that code which does not compile yet is judged too.
type tree struct {
	fset    *token.FileSet
	files   []*source
	tracked map[string][]byte // every file that git would keep, by path
	sleep   map[string]string // test files that may sleep for real, with the reason
}

// source is one Go file.
type source struct {
	*ast.File
	path      string
	dir       string // the package's import path without the module's
	test      bool
	generated bool
	lines     int
}

// load parses all Go files below fsys, but for test data and what a tool put there.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && foreign(d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".go":
			return nil
		}
		return t.add(fsys, p)
	})
	return t, err
}

func foreign(dir string) bool {
	switch dir {
	case "testdata", "vendor", "node_modules", "bin", "leaselog-data":
		return true
	}
	return strings.HasPrefix(dir, ".")
}

func (t *tree) add(fsys fs.FS, p string) error {
	text, err := fs.ReadFile(fsys, p)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(t.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("make it parse first: %w", err)
	}
	t.files = append(t.files, &source{
		File:      f,
		path:      p,
		dir:       path.Dir(p),
		test:      strings.HasSuffix(p, "_test.go"),
		generated: ast.IsGenerated(f),
		lines:     bytes.Count(text, []byte("\n")),
	})
	return nil
}

// at names a place as editors understand it.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// packages groups the files by directory.
func (t *tree) packages() map[string][]*source {
	all := map[string][]*source{}
	for _, f := range t.files {
		all[f.dir] = append(all[f.dir], f)
	}
	return all
}

// imports gives a file's imports by the name that the file knows them by.
func (f *source) imports() map[string]string {
	all := map[string]string{}
	for _, s := range f.Imports {
		p := importPath(s)
		name := path.Base(strings.TrimSuffix(p, "/v2"))
		if s.Name != nil {
			name = s.Name.Name
		}
		all[name] = p
	}
	return all
}

func importPath(s *ast.ImportSpec) string { return strings.Trim(s.Path.Value, "\"`") }

// calls visits every use of a name of the imported package in a file, as in time.Now.
func (f *source) calls(pkg string, visit func(*ast.SelectorExpr)) {
	names := f.imports()
	ast.Inspect(f.File, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && names[x.Name] == pkg {
				visit(s)
			}
		}
		return true
	})
}
