package main

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resumable is a batch of files that fails some lines, and what it writes if nothing
// disturbs it.
type resumable struct {
	args []string
	out  string
	want string
}

func newResumable(t *testing.T, lines string, more ...string) resumable {
	t.Helper()
	folder := t.TempDir()
	in := filepath.Join(folder, "in.jsonl")
	require.NoError(t, os.WriteFile(in, []byte(lines), 0o600))
	r := resumable{out: filepath.Join(folder, "out.jsonl")}
	r.args = append([]string{"batch", "-m", storiesFile, "-i", in, "-o", r.out, "--devices", "cpu/2"}, more...)
	whole := filepath.Join(folder, "whole.jsonl")
	leat(t, append(r.args, "--seed", "3", "-o", whole)...)
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	require.NotEmpty(t, data)
	r.want = string(data)
	return r
}

func (r resumable) got(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(r.out)
	require.NoError(t, err)
	return string(data)
}

// A process that is killed at random moments, and resumed, writes the bytes of one
// that isn't.
func TestBatchKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("kills as Unix does")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	r := newResumable(t, mixed(4000), "-n", "30")
	kills, kept := 0, 0
	for status := -1; status != exitFailed; {
		c := exec.Command(self, append(r.args, "--resume", "--json")...)
		if _, err := os.Stat(r.out + journalEnding); err != nil {
			c.Args = append(c.Args, "--seed", "3") // later ones find it
		}
		c.Env = append(os.Environ(), asCommand+"=1", "LEAT_RATES=off")
		stdout, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		kill := time.AfterFunc(time.Duration(50+rand.IntN(300+30*kills))*time.Millisecond, func() { _ = c.Process.Kill() })
		printed, err := io.ReadAll(stdout)
		require.NoError(t, err)
		_ = c.Wait()
		kill.Stop()
		if status = c.ProcessState.ExitCode(); status == -1 {
			kills++
			continue
		}
		require.Equal(t, exitFailed, status, "some lines fail")
		kept = parsed[batchDocument](t, string(printed)).Kept
	}
	t.Logf("%d kills, at the last start %d lines were done", kills, kept)
	assert.Positive(t, kills)
	assert.True(t, r.want == r.got(t))
	entries, err := os.ReadDir(filepath.Dir(r.out))
	require.NoError(t, err)
	assert.Len(t, entries, 3, "no journal is left")
}

// Ctrl+C keeps what is finished behind an unfinished line, too.
func TestBatchResumed(t *testing.T) {
	r := newResumable(t, mixed(3000), "-n", "20")
	rounds, written := 0, 0
	for status := exitInterrupted; status == exitInterrupted; rounds++ {
		ctx, stop := context.WithCancel(t.Context())
		watch := time.AfterFunc(time.Duration(20+rand.IntN(200+50*rounds))*time.Millisecond, stop)
		args := append(r.args, "--resume", "--json")
		if _, err := os.Stat(r.out + journalEnding); err != nil {
			args = append(args, "--seed", "3")
		}
		o := leatWith(ctx, strings.NewReader(""), args...)
		watch.Stop()
		stop()
		status = o.status
		got, err := os.ReadFile(r.out)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		require.True(t, strings.HasPrefix(r.want, string(got)), "it is a beginning of the whole")
		require.GreaterOrEqual(t, len(got), written, "nothing gets lost")
		written = len(got)
	}
	t.Logf("%d rounds", rounds)
	assert.True(t, r.want == r.got(t))

	// What is complete stays, and still says that lines failed.
	o := leat(t, append(r.args, "--resume", "--json")...)
	failed(t, o, "lines failed")
	doc := parsed[batchDocument](t, o.out)
	assert.Equal(t, doc.Lines, doc.Kept)
	assert.Zero(t, doc.Tokens)
	assert.True(t, r.want == r.got(t))
}

// A result that waits for a slow line is in the journal, and isn't computed again.
func TestBatchKeepsWhatWaits(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte(`{"id":"slow","prompt":"Once","max_tokens":100000}
{"id":"quick","prompt":"The","max_tokens":2}
`))
	out := filepath.Join(filepath.Dir(in), "out.jsonl")
	args := []string{"batch", "-m", storiesFile, "-i", in, "-o", out, "--ctx", "100000", "--seed", "1", "--json", "--temp", "1"}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		for ctx.Err() == nil {
			if data, _ := os.ReadFile(out + journalEnding); strings.Contains(string(data), `"quick"`) {
				return
			}
			runtime.Gosched()
		}
	}()
	assert.Equal(t, exitInterrupted, leatWith(ctx, strings.NewReader(""), args...).status)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Empty(t, data)
	o := leat(t, args...)
	assert.Equal(t, exitFailed, o.status)
	assert.Contains(t, o.err, journalEnding+" holds 1 result of a run")

	// The slow line gets shorter, so that the test doesn't take long: it isn't the
	// input that the result is of.
	require.NoError(t, os.WriteFile(in, []byte(`{"id":"slow","prompt":"Once","max_tokens":3}
{"id":"quick","prompt":"The","max_tokens":2}
`), 0o600))
	o = leat(t, append(args, "--resume")...)
	assert.Equal(t, exitFailed, o.status)
	assert.Contains(t, o.err, "results of another input: they differ at line 2 or before")
	o = leat(t, append(args, "--overwrite")...)
	assert.Equal(t, exitDone, o.status, o.err)
	assert.NoFileExists(t, out+journalEnding)
}

func TestBatchResumeRefuses(t *testing.T) {
	folder := t.TempDir()
	in, out := filepath.Join(folder, "in.jsonl"), filepath.Join(folder, "out.jsonl")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	resume := func(more ...string) outcome {
		return leat(t, append([]string{"batch", "-m", storiesFile, "-i", in, "-o", out, "--resume", "-n", "2"}, more...)...)
	}
	const lines = "{\"id\":1,\"prompt\":\"The\"}\n\n{\"id\":2,\"prompt\":\"The\"}\n"
	write(in, lines)

	// Nothing is there: it begins.
	assert.Equal(t, exitDone, resume("--seed", "1").status)
	whole, err := os.ReadFile(out)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(whole), "\n")

	// A line cut short is done again, with the seed that was told.
	write(out, first+"\n{\"id\":2,\"te")
	failed(t, resume(), "which knew the seed, is missing", "--seed")
	assert.Equal(t, exitDone, resume("--seed", "1").status)
	again, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, string(whole), string(again))

	header := `{"version":1,"seed":1,"settings":{"-n":"3","--temp":"0.8"}}` + "\n"
	for what, there := range map[string]struct{ in, out, journal string }{
		"line 1 is no result":       {lines, "precious\n", ""},
		"line 2 is no result":       {lines, first + "\nprecious", ""},
		"differ at line 1":          {"{\"id\":3,\"prompt\":\"The\"}\n", first + "\n", ""},
		"1 results more than":       {"\n", first + "\n", ""},
		"isn't the journal":         {lines, first + "\n", "precious\n"},
		"-n is 2 now, and was 3":    {lines, first + "\n", header},
		"was begun with --seed 1":   {lines, first + "\n", strings.Replace(header, `"3"`, `"2"`, 1)},
		"--logprobs is not given n": {lines, first + "\n", strings.NewReplacer(`"-n":"3"`, `"--logprobs":"3"`, `"seed":1`, `"seed":2`).Replace(header)},
		"--temp is 0.8 now, and wa": {lines, first + "\n", strings.NewReplacer(`"3"`, `"2"`, "0.8", "1", `"seed":1`, `"seed":2`).Replace(header)},
	} {
		write(in, there.in)
		write(out, there.out)
		_ = os.Remove(out + journalEnding)
		if there.journal != "" {
			write(out+journalEnding, there.journal)
		}
		o := resume("--seed", "2")
		if strings.Contains(what, "-n is") { // of the same seed
			o = resume("--seed", "1")
		}
		assert.Contains(t, []int{exitFailed, exitUsage}, o.status, what)
		assert.Contains(t, o.err, what)
		left, err := os.ReadFile(out)
		require.NoError(t, err)
		assert.Equal(t, there.out, string(left), what)
	}
}

// A journal that can't be written is no reason not to work.
func TestBatchWithoutAJournal(t *testing.T) {
	in := writeFile(t, "in.jsonl", []byte(`{"prompt":"The","max_tokens":1}`))
	out := filepath.Join(filepath.Dir(in), strings.Repeat("o", 250))
	o := leat(t, "batch", "-m", storiesFile, "-i", in, "-o", out)
	if runtime.GOOS == "linux" {
		assert.Contains(t, o.err, "can't be resumed")
	}
	assert.Equal(t, exitDone, o.status, o.err)
	assert.FileExists(t, out)
}

// A batch whose output another process writes changes nothing and says so, whatever it
// was told to do with the output.
func TestBatchIsAlone(t *testing.T) {
	folder := t.TempDir()
	out := filepath.Join(folder, "out.jsonl")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	defer w.Close()
	ended := make(chan outcome)
	go func() { ended <- leatWith(ctx, r, "batch", "-m", storiesFile, "-i", "-", "-o", out, "--seed", "1") }()
	line := `{"prompt":"The","max_tokens":2}` + "\n"
	_, err := io.WriteString(w, line) // it is being read: the output is locked
	require.NoError(t, err)

	in := writeFile(t, "in.jsonl", []byte(line))
	for _, how := range [][]string{{"--resume"}, {"--overwrite"}, {}} {
		o := leat(t, append([]string{"batch", "-m", storiesFile, "-i", in, "-o", out}, how...)...)
		failed(t, o, "out.jsonl is being written by another process", "name another file")
	}
	require.NoError(t, w.Close())
	o := <-ended
	require.Equal(t, exitDone, o.status, o.err)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(data), "\n"), "nothing was lost, and nothing came twice")

	o = leat(t, "batch", "-m", storiesFile, "-i", in, "-o", out, "--overwrite")
	assert.Equal(t, exitDone, o.status, "the lock has ended: %s", o.err)
}
