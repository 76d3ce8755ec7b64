//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waiting starts the command in a process of its own and sends it one signal when it
// has done what until waits for. It must end by itself, with status 130.
func waiting(t *testing.T, s os.Signal, until func(pid int), c *exec.Cmd) (stderr string) {
	t.Helper()
	var errs bytes.Buffer
	c.Stderr = &errs
	require.NoError(t, c.Start())
	until(c.Process.Pid)
	require.NoError(t, c.Process.Signal(s))
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
		assert.Equal(t, exitInterrupted, c.ProcessState.ExitCode(), "%v: %s", c.Args, errs.String())
	case <-time.After(20 * time.Second):
		_ = c.Process.Kill()
		<-ended
		t.Errorf("%v goes on after %v", c.Args, s)
	}
	return errs.String()
}

func itself(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asCommand+"=1", "LEAT_RATES=off")
	return c
}

// One signal ends a command that waits for the other end of a named pipe, wherever
// it is named.
func TestOneSignalEndsAnOpen(t *testing.T) {
	folder := t.TempDir()
	const pipe = "PIPE" // stands for one of each command's own
	in := filepath.Join(folder, "in.jsonl")
	require.NoError(t, os.WriteFile(in, []byte(`{"prompt":"The","max_tokens":1}`), 0o600))
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
	for i, args := range [][]string{
		{"run", "-f", pipe},
		{"run", "-p", "a", "-n", "1", "--trace", pipe},
		{"batch", "-i", pipe, "-o", filepath.Join(folder, "out")},
		{"batch", "-i", in, "-o", pipe},
		{"plan", "--placement", pipe},
		{"plan", "--svg", pipe},
		{"logits", "--tokens", "1", "-o", pipe},
		{"bench", "--placement", pipe},
		{"demo", "--trace", pipe},
	} {
		if args[0] != "demo" {
			args = append(args, "-m", storiesFile)
		}
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			own := filepath.Join(t.TempDir(), "pipe")
			require.NoError(t, syscall.Mkfifo(own, 0o600))
			args[slices.Index(args, pipe)] = own
			waiting(t, signals[i%3], func(pid int) { blocked(t, pid, callOpen) }, itself(t, args...))
		})
	}
}

// One signal ends a command whose standard output nobody reads.
func TestOneSignalEndsAWrite(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte(strings.Repeat(`{"prompt":"The","max_tokens":20}`+"\n", 5000)))
	for name, args := range map[string][]string{
		"batch":  {"batch", "-m", storiesFile, "-i", in, "-o", "-"},
		"device": {"batch", "-m", storiesFile, "-i", in, "-o", "/dev/stdout"},
		"run":    {"run", "-m", storiesFile, "-p", "Once", "-n", "1000000", "--ctx", "1000000", "--temp", "1"},
		"logits": {"logits", "-m", storiesFile, "--tokens", "1" + strings.Repeat(",403", 120), "-o", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			c := itself(t, args...)
			c.Stdout = w
			fill(t, w)
			full := func(pid int) {
				require.NoError(t, w.Close())
				blocked(t, pid, callWrite)
			}
			waiting(t, syscall.SIGTERM, full, c)
		})
	}
}

// fill writes to a pipe until it holds no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	raw, err := w.SyscallConn()
	require.NoError(t, err)
	var full error
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), make([]byte, 1))
		}
		return true
	}))
	require.ErrorIs(t, full, syscall.EAGAIN)
}

// nohup's wish that SIGHUP be ignored is respected, and otherwise it is told.
func TestHangup(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte(strings.Repeat(`{"prompt":"The","max_tokens":20}`+"\n", 100000)))
	out := filepath.Join(filepath.Dir(in), "out.jsonl")
	c := itself(t, "batch", "-m", storiesFile, "-i", in, "-o", out)
	begun := func(int) {
		require.Eventually(t, func() bool { _, err := os.Stat(out + journalEnding); return err == nil }, 20*time.Second, time.Millisecond)
	}
	assert.Contains(t, waiting(t, syscall.SIGHUP, begun, c), "--resume goes on")
}

func TestOutputsOverInputs(t *testing.T) {
	folder := t.TempDir()
	model, lines := filepath.Join(folder, "m.gguf"), filepath.Join(folder, "in.jsonl")
	data, err := os.ReadFile(storiesFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(model, data, 0o600))
	require.NoError(t, os.WriteFile(lines, []byte("{\"prompt\":\"a\"}\n"), 0o600))
	soft := filepath.Join(folder, "soft")
	require.NoError(t, os.Symlink(model, soft))
	placement := filepath.Join(folder, "p.json")
	require.NoError(t, os.WriteFile(placement, []byte(done(t, "plan", "-m", model, "--devices", "cpu/2", "--json")), 0o600))
	before := func() (all string) {
		for _, path := range []string{model, lines, placement} {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			all += string(data)
		}
		return all
	}
	was := before()
	for _, args := range [][]string{
		{"logits", "-m", model, "--tokens", "1", "-o", model},
		{"logits", "-m", model, "--tokens", "1", "-o", soft},
		{"logits", "-m", model, "--tokens", "1", "-o", folder + "/./m.gguf"},
		{"logits", "-m", model, "--tokens", "1", "--placement", placement, "-o", placement},
		{"plan", "-m", model, "--svg", model},
		{"plan", "-m", model, "--placement", placement, "--svg", placement},
		{"run", "-m", model, "-p", "a", "--trace", model},
		{"run", "-m", model, "-f", lines, "--trace", lines},
		{"batch", "-m", model, "-i", lines, "-o", model},
		{"batch", "-m", model, "-i", lines, "-o", lines},
		{"batch", "-m", model, "-i", lines, "-o", folder + "/out", "--trace", folder + "/out"},
		{"batch", "-m", model, "-i", lines, "-o", folder + "/out", "--trace", folder + "/out.resume"},
		{"demo", "--placement", placement, "--trace", placement},
		{"bench", "-m", model, "--placement", placement, "--trace", placement},
	} {
		o := leat(t, args...)
		assert.Equal(t, exitUsage, o.status, "%q: %s", args, o.err)
		assert.Contains(t, o.err, "are the same file: it would be overwritten")
		assert.Equal(t, was, before(), args)
	}
	// Standard output that the shell has redirected, here to append.
	f, err := os.OpenFile(model, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	var errs bytes.Buffer
	for _, args := range [][]string{{"run", "-m", soft, "-p", "a"}, {"inspect", model}, {"batch", "-m", model, "-i", lines, "-o", "-"}} {
		assert.Equal(t, exitUsage, run(context.Background(), args, strings.NewReader(""), f, &errs), errs.String())
	}
	assert.Equal(t, was, before())
	assert.NoFileExists(t, folder+"/out")
}

// A path that means standard output, and pipes, get what a file gets.
func TestOutputsThatAreNoFiles(t *testing.T) {
	want := done(t, "logits", "-m", storiesFile, "--tokens", "1,2", "-o", "-")
	assert.Len(t, want, 2*512*4)
	assert.Equal(t, want, done(t, "logits", "-m", storiesFile, "--tokens", "1,2", "-o", "/dev/stdout"))
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	read := make(chan string)
	go func() {
		data, _ := os.ReadFile(pipe)
		read <- string(data)
	}()
	done(t, "logits", "-m", storiesFile, "--tokens", "1,2", "-o", pipe)
	assert.Equal(t, want, <-read)

	// A file of the process itself is appended to, as a shell would.
	path := writeFile(t, "log", []byte("before\n"))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	c := itself(t, "plan", "-m", storiesFile, "--svg", "/dev/stdout")
	c.Stdout = f
	require.NoError(t, c.Run())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(data), "before\n<?xml"), "%.40s", data)
}
