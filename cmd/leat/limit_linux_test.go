//go:build linux && !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memoryGroup makes a control group with a memory limit, and returns the command that
// runs another one in it.
func memoryGroup(t *testing.T, limit string) (in func(args ...string) *exec.Cmd) {
	t.Helper()
	root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(root); err != nil {
		root, file = "/sys/fs/cgroup", "memory.max"
	}
	group := filepath.Join(root, fmt.Sprintf("leat-test-%d-%s", os.Getpid(), limit))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("control groups can't be made here: ", err)
	}
	t.Cleanup(func() {
		// The kernel takes a moment to see that the process has ended.
		assert.Eventually(t, func() bool { return os.Remove(group) == nil }, 5*time.Second, 20*time.Millisecond)
	})
	if err := os.WriteFile(filepath.Join(group, file), []byte(limit), 0o644); err != nil {
		t.Skip("memory can't be limited here: ", err)
	}
	return func(args ...string) *exec.Cmd {
		script := `echo $$ > "$0" && exec "$@"`
		return exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, filepath.Join(group, "cgroup.procs")}, args...)...)
	}
}

// Inside a memory limit a batch is refused by its plan, or comes to its end.
func TestAPlanThatFitsRunsToItsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("writes many texts")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, `{"prompt":"Once upon a time number %d","max_tokens":200}`+"\n", i)
	}
	input := writeFile(t, "in.jsonl", []byte(lines.String()))
	finished := 0
	for _, limit := range []string{"40M", "56M", "72M"} {
		args := []string{self, "batch", "-m", storiesFile, "-i", input, "-o", filepath.Join(t.TempDir(), "out.jsonl"), "--ctx", "4096", "--max-seqs", "256"}
		if limit == "72M" {
			args = append(args, "--logprobs", "20") // results a hundred times as large as their texts
		}
		c := memoryGroup(t, limit)(args...)
		c.Env = append(os.Environ(), asCommand+"=1")
		out, err := c.CombinedOutput()
		if err != nil {
			assert.Equal(t, exitFailed, c.ProcessState.ExitCode(), "a limit of %s: %v\n%s", limit, err, out)
			assert.Contains(t, string(out), "doesn't fit", limit)
			continue
		}
		finished++
		assert.Contains(t, string(out), "200 lines")
	}
	assert.Positive(t, finished, "not all limits are refused")
}
