package pipeline_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every exported function and method has an example that runs.
func TestEveryFunctionHasAnExample(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(set, path, source, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, "github.com/leat-dev/leat/pipeline")
	require.NoError(t, err)
	check := func(name string, functions []*doc.Func, examples []*doc.Example) {
		for _, f := range functions {
			if f.Name == "Error" || f.Name == "Unwrap" {
				continue // the type's example shows them
			}
			if assert.NotEmpty(t, f.Examples, "%s%s has no example", name, f.Name) {
				examples = append(examples, f.Examples...)
			}
		}
		for _, e := range examples {
			assert.True(t, e.Output != "" || e.EmptyOutput, "the example of %s%s doesn't run", name, e.Name)
		}
	}
	check("", p.Funcs, p.Examples)
	for _, typ := range p.Types {
		check(typ.Name+".", typ.Methods, typ.Examples)
		check("", typ.Funcs, nil)
	}
}
