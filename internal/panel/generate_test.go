package panel_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The assembly in the tree is what its generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("the generator is built and run; not with -short")
	}
	if out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-C", "_gen").CombinedOutput(); err != nil {
		t.Skipf("the generator's modules can't be had: %v: %s", err, out)
	}
	dir := t.TempDir()
	for _, family := range []string{"float", "bf16", "integer_vnni", "integer_avx512", "integer_avxvnni", "integer_avx2", "quantize", "attention", "elementwise", "activation", "sampling", "ceiling"} {
		pkg, in, name := "panel", ".", family
		if family == "ceiling" {
			pkg, in, name = "ceiling", "../ceiling", "rates"
		}
		asm, declarations := filepath.Join(dir, name+"_amd64.s"), filepath.Join(dir, name+"_amd64.go")
		out, err := exec.CommandContext(t.Context(), "go", "run", "-C", "_gen", ".",
			"-kernels", family, "-pkg", pkg, "-out", asm, "-stubs", declarations).CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, made := range []string{asm, declarations} {
			want, err := os.ReadFile(made)
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(in, filepath.Base(made)))
			require.NoError(t, err)
			assert.True(t, bytes.Equal(body(want), body(got)),
				"%s isn't what _gen writes: run go generate ./internal/%s", filepath.Base(made), pkg)
		}
	}
}

// body is a file without its first line, which says how it was made. A checkout
// may have carriage returns.
func body(file []byte) []byte {
	_, rest, _ := bytes.Cut(bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n")), []byte("\n"))
	return rest
}
