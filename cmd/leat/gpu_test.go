package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
)

// asCommand is the environment variable that makes the test's program the command,
// so that a test can have a process of its own: a driver is loaded once in each.
const asCommand = "LEAT_TEST_AS_COMMAND"

func runAsCommand() {
	if os.Getenv(asCommand) != "" {
		main()
	}
}

// process runs the command in a process of its own, with more of an environment.
func process(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(append(os.Environ(), asCommand+"=1", "LEAT_RATES=off"), env...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return outcome{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

// emulated is the environment of a machine with emulated GPUs.
func emulated(t *testing.T, more ...string) []string {
	t.Helper()
	path := emulator.Library()
	if path == "" {
		if os.Getenv("LEAT_REQUIRE_EMULATOR") != "" {
			t.Fatal("the emulated driver isn't built: run make emulator")
		}
		t.Skip("the emulated driver isn't built: make emulator")
	}
	return append([]string{emulator.Variable + "=" + path}, more...)
}

var story = []string{"run", "-m", storiesFile, "-p", "Once upon a time", "-n", "20", "--temp", "0", "--reserve", "0"}

// Whatever is wrong with a driver, leat devices says it in one line, who asks for the
// GPU gets that line as an error, and who doesn't goes on with the CPU.
func TestNoGPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the driver's name is Linux's")
	}
	want := process(t, nil, append(story, "--devices", "cpu")...)
	require.Equal(t, exitDone, want.status, want.err)
	for name, c := range map[string]struct {
		env  func(t *testing.T) []string
		says string
	}{
		"no library":           {func(*testing.T) []string { return []string{"LEAT_CUDA_LIBRARY=/nowhere/libcuda.so.1"} }, "/nowhere/libcuda.so.1"},
		"another library":      {func(*testing.T) []string { return []string{"LEAT_CUDA_LIBRARY=libm.so.6"} }, "libm.so.6 lacks the function cu"},
		"a driver too old":     {func(t *testing.T) []string { return emulated(t, "LEAT_EMULATED_DRIVER=12020") }, "this one is for 12.2"},
		"no device":            {func(t *testing.T) []string { return emulated(t, "LEAT_EMULATED_GPUS=0") }, "no CUDA-capable device"},
		"a device that's busy": {func(t *testing.T) []string { return emulated(t, "LEAT_EMULATED_FAULT=busy:0") }, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			env := c.env(t)
			list := process(t, env, "devices")
			assert.Equal(t, exitDone, list.status, list.err)
			line := ""
			for l := range strings.Lines(list.out) {
				if strings.HasPrefix(l, "cuda") {
					assert.Empty(t, line, "one line")
					line = l
				}
			}
			assert.Contains(t, line, c.says)

			failed(t, process(t, env, append(story, "--devices", "cuda:0")...), "cuda:0", c.says)
			auto := process(t, env, story...)
			assert.Equal(t, want, auto)
		})
	}
}

// Blocks that two small GPUs can't hold go to the CPU, and the text is the same.
func TestGPUsAndSpilledBlocks(t *testing.T) {
	env := emulated(t, "LEAT_EMULATED_GPUS=2", "LEAT_EMULATED_GPU_MEMORY=2MiB")
	assert.Contains(t, process(t, env, "devices").out, "emulated")

	want := parsed[runDocument](t, process(t, nil, append(story, "--devices", "cpu", "--json")...).out)
	o := process(t, env, append(story, "--devices", "cuda:0,cuda:1,cpu", "--pack", "first-fit", "--json")...)
	require.Equal(t, exitDone, o.status, o.err)
	assert.Empty(t, o.err, "the emulator has nothing to report")
	got := parsed[runDocument](t, o.out)
	assert.Equal(t, want.Tokens, got.Tokens)
	var devices []string
	for _, s := range got.Stages {
		devices = append(devices, s.Device)
	}
	require.Len(t, devices, 3, "%v", devices)
	assert.Equal(t, []string{"cuda:0", "cuda:1"}, devices[:2])
	assert.Contains(t, devices[2], "cpu")
}

// A GPU that fails in mid-run is an error that names the call, the stage and the
// device.
func TestGPUThatFails(t *testing.T) {
	for fault, says := range map[string][]string{
		"cuLaunchKernel:60": {"stage 0 (", "on cuda:0", "cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED"},
		"vanish:0@60":       {"stage 0 (", "on cuda:0", "CUDA_ERROR_LAUNCH_FAILED"},
		"cuMemAlloc:7":      {"stage 0 (", "on cuda:0", "loading: ", "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "asked for", "are free"},
	} {
		o := process(t, emulated(t, "LEAT_EMULATED_FAULT="+fault), append(story, "--devices", "cuda:0,cpu:0")...)
		failed(t, o, says...)
	}
}
