package backends_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gpuCode is what packages that have to do with GPUs have in their paths.
var gpuCode = []string{"ebitengine/purego", "leat/device/cuda", "leat/kernels/gpu", "leat/internal/gpu", "leat/backends"}

// A module of its own that embeds pipeline for a small network runs on cores, and
// links GPU code only if it imports a GPU backend.
func TestANetworkOnCoresLinksNoGPUCode(t *testing.T) {
	m := embed(t)
	assert.Equal(t, "stages 2 numbers 20\n", m.run("run", ".", "cpu/2"))
	assert.Empty(t, m.linked())

	out, err := m.command("run", ".", "cuda:0").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), `device cuda:0: no cuda device: this program has no cuda backend: it must import "github.com/leat-dev/leat/backends/cuda", and be built without the tag nogpu`)

	m.write("gpus.go", "package main\n\nimport _ \"github.com/leat-dev/leat/backends\"\n")
	linked := m.linked()
	for _, path := range gpuCode {
		assert.Contains(t, strings.Join(linked, "\n"), path)
	}
	assert.Subset(t, []string{"github.com/leat-dev/leat/backends", "github.com/leat-dev/leat/backends/cuda"}, m.linked("-tags", "nogpu"))
}

// module is a module in a folder of its own which requires Leat as it is here.
type module struct {
	t   *testing.T
	dir string
}

// embed makes a module of the program in testdata/mlp. Nothing is fetched: what Leat
// requires is in the module cache, or Leat's own tests wouldn't run.
func embed(t *testing.T) module {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	leat, err := filepath.Abs("..")
	require.NoError(t, err)
	m := module{t, t.TempDir()}
	read := func(path ...string) string {
		b, err := os.ReadFile(filepath.Join(path...))
		require.NoError(t, err)
		return string(b)
	}
	m.write("main.go", read("testdata", "mlp", "main.go"))
	m.write("go.sum", read(leat, "go.sum"))
	m.write("go.mod", "module example.org/mlp\n\ngo 1.26.0\n\nrequire github.com/leat-dev/leat v0.0.0\n\nreplace github.com/leat-dev/leat => "+leat+"\n")
	return m
}

func (m module) write(name, text string) {
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644))
}

// command is the go command in the module, kept from the network.
func (m module) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(m.t.Context(), "go", args...)
	c.Dir = m.dir
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local", "LEAT_RATES=off")
	return c
}

// run returns what a go command prints.
func (m module) run(args ...string) string {
	m.t.Helper()
	var said strings.Builder
	c := m.command(args...)
	c.Stderr = &said
	out, err := c.Output()
	require.NoError(m.t, err, "go %s: %s", strings.Join(args, " "), &said)
	return string(out)
}

// linked returns the packages of the program that have to do with GPUs.
func (m module) linked(flags ...string) (paths []string) {
	m.t.Helper()
	all := strings.Fields(m.run(append(append([]string{"list", "-deps"}, flags...), ".")...))
	require.Contains(m.t, all, "github.com/leat-dev/leat/kernels/cpu")
	for _, path := range all {
		for _, part := range gpuCode {
			if strings.Contains(path, part) {
				paths = append(paths, path)
				break
			}
		}
	}
	return paths
}
