package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/internal/emulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const script = "gpu-check.sh"

// bundle makes what make gpu-bundle makes.
func bundle(t *testing.T) string {
	t.Helper()
	mkgguf := "../../../shared/tools/mkgguf"
	if _, err := os.Stat(mkgguf); err != nil {
		t.Skip("mkgguf, which makes the models, isn't beside the repository: ", err)
	}
	dir := t.TempDir()
	build := func(from, name string, args ...string) {
		c := exec.Command("go", append(args, "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name))...)
		c.Dir, c.Env = from, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		said, err := c.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	build("../../cmd/leat", "leat", "build")
	build(".", "gpucheck", "build")
	build("../../kernels/gpu", "kernels.test", "test", "-c")
	build(mkgguf, "mkgguf", "build")
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, script), text, 0o755))
	return dir
}

// outcome is how the script ended.
type outcome struct {
	status    int
	out, said string
}

func checkIn(t *testing.T, dir, environment string, args ...string) outcome {
	t.Helper()
	var out, said bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(dir, script), args...)
	c.Dir, c.Stdout, c.Stderr = t.TempDir(), &out, &said
	c.Env = append(os.Environ(), strings.Fields(environment)...)
	if err := c.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return outcome{c.ProcessState.ExitCode(), out.String(), said.String()}
}

// The whole script, on small things, under the emulated driver.
func TestScript(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("it builds all of a bundle")
	case runtime.GOOS != "linux":
		t.Skip("the emulated driver is for Linux")
	}
	emulator.Use(t, emulator.Machine{}) // the programs find it in the environment
	dir := bundle(t)
	const some = "^(TestRMSNorm|TestMatMul)$/^OfIntegersIsToTheBit$"

	t.Run("all is right", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "report.md")
		o := checkIn(t, dir, "LEAT_EMULATED_GPUS=2", "-quick", "-tests", some, "-o", file)
		require.Zero(t, o.status, "%s\n%s", o.out, o.said)
		require.NotContains(t, o.said, "emulated GPU: ", "what the emulated driver reports")
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, o.out, string(written))
		require.NotContains(t, o.out, "WRONG")
		require.NotContains(t, o.out, "Not run:")
		for _, want := range []string{
			"# Leat under the emulated driver\n", "**Emulated:", "Result: **right**",
			"\n- 2 passed, 0 failed, 0 skipped\n",
			"\n- greedy text of 40 tokens, the CPU's on each of: cuda:0; cuda:0,cuda:0; cuda:0,cpu; cpu,cuda:0; cuda:0,cuda:1\n",
			"\n- logits with --devices cuda:0 --max-batch 7: those of cuda:0 to the bit\n",
			"\n- logits with --devices cuda:0,cuda:1: those of cuda:0 to the bit\n",
			"\n| memory copied, 128.0 KiB at a time", "\n| float multiply-adds", "\n| byte multiply-adds",
			"\n| Embed of Q8_0 |", "\n| ArgMax |",
		} {
			require.Contains(t, o.out, want)
		}
		for _, typ := range weightTypes {
			require.Equal(t, 3, strings.Count(o.out, "\n| "+typ.String()+" | "), "products of %v", typ)
		}
		for _, typ := range []string{"F16", "Q8_0", "F32"} {
			require.Equal(t, 4, strings.Count(o.out, "\n| "+typ+", "), "attention with a cache of %s", typ)
		}
		for _, typ := range quickModel.types {
			_, model, found := strings.Cut(o.out, " parameters in "+typ+"\n")
			require.True(t, found, typ)
			model, _, _ = strings.Cut(model, "\n## ")
			require.Contains(t, model, "\n- logits of 8 tokens: relative error ")
			require.Contains(t, model, "\n- logits of 3 rows at a time: those of all at once to the bit\n")
			require.Contains(t, model, "\n| prefill, 8 tokens | 1 | ")
			require.Contains(t, model, "\n| decode, 2 tokens | 16 | ")
		}
	})
	t.Run("kernels fail", func(t *testing.T) {
		o := checkIn(t, dir, "LEAT_EMULATED_FAULT=cuLaunchKernel:1+", "-quick", "-tests", some)
		require.Equal(t, 1, o.status, o.said)
		require.Contains(t, o.out, "Result: **WRONG**")
		for _, step := range []string{"ceilings", "kernel tests", "stories260K", "model in Q8_0", "products", "attention", "other ops"} {
			require.Contains(t, o.out, "\n- WRONG: "+step+": ")
		}
		require.Contains(t, o.out, "\n- 0 passed, 2 failed, 0 skipped\n")
		require.Contains(t, o.out, "cuLaunchKernel")
	})
	t.Run("no time", func(t *testing.T) {
		o := checkIn(t, dir, "", "-budget", "1s")
		require.Equal(t, 1, o.status, o.said)
		require.Contains(t, o.out, "Result: **nothing was run**")
		require.Contains(t, o.out, "\n- kernel tests: ")
	})
	t.Run("no GPU", func(t *testing.T) {
		o := checkIn(t, dir, "LEAT_EMULATED_GPUS=0")
		require.Equal(t, 1, o.status)
		require.Empty(t, o.out)
		require.Contains(t, o.said, "gpu-check.sh: no GPU that Leat can use:\n")
		require.Contains(t, o.said, "cuda ")
	})
	t.Run("half a bundle", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(dir, "mkgguf")))
		o := checkIn(t, dir, "")
		require.Equal(t, 1, o.status)
		require.Contains(t, o.said, "mkgguf is missing")
	})
}
