package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runAsCommand()
	goleak.VerifyTestMain(m)
}

const storiesFile = "../../internal/stories/stories260K.gguf"

// outcome is what a run of the command left.
type outcome struct {
	status   int
	out, err string
}

// leat runs the command with nothing on standard input.
func leat(t *testing.T, args ...string) outcome {
	t.Helper()
	return leatWith(t.Context(), strings.NewReader(""), args...)
}

func leatWith(ctx context.Context, stdin io.Reader, args ...string) outcome {
	var out, err bytes.Buffer
	status := run(ctx, args, stdin, &out, &err)
	return outcome{status, out.String(), err.String()}
}

// done returns what a command printed that must succeed, and be silent
// otherwise.
func done(t *testing.T, args ...string) string {
	t.Helper()
	o := leat(t, args...)
	require.Equal(t, exitDone, o.status, o.err)
	require.Empty(t, o.err)
	return o.out
}

// document returns the one JSON object that a command prints.
func document[T any](t *testing.T, args ...string) T {
	t.Helper()
	return parsed[T](t, done(t, args...))
}

func parsed[T any](t *testing.T, text string) T {
	t.Helper()
	var doc T
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&doc), text)
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF, "there is more than one object")
	return doc
}

// failed checks that a command ends with status 1 and one line that holds all
// of what.
func failed(t *testing.T, o outcome, what ...string) {
	t.Helper()
	assert.Equal(t, exitFailed, o.status, o.err)
	assert.Equal(t, 1, strings.Count(o.err, "\n"), o.err)
	assert.True(t, strings.HasPrefix(o.err, "leat: ") && strings.HasSuffix(o.err, "\n"), o.err)
	for _, w := range what {
		assert.Contains(t, o.err, w)
	}
}

// writeFile puts a file into a folder of the test's own.
func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

// shared returns the path of a file that may stand beside the repository.
func shared(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("../../../shared", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not here", path)
	}
	return path
}

func TestHelp(t *testing.T) {
	all := done(t)
	assert.Equal(t, all, done(t, "--help"))
	assert.Equal(t, all, done(t, "help"))
	root := rootCommand()
	for _, name := range []string{"demo", "run", "batch", "plan", "devices", "inspect", "tokenize", "logits", "bench"} {
		assert.Contains(t, all, "  "+name)
		help := done(t, name, "--help")
		assert.Equal(t, help, done(t, "help", name))
		c, _, err := root.Find([]string{name})
		require.NoError(t, err)
		assert.NotEmpty(t, c.Short)
		assert.Contains(t, help, c.Long)
		assert.Contains(t, help, c.Example)
		assert.NotEmpty(t, c.Long, name)
		assert.NotEmpty(t, c.Example, name)
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			assert.LessOrEqual(t, len([]rune(line)), 90, line)
		}
	}
	assert.NotContains(t, all, "completion")
}

func TestVersion(t *testing.T) {
	assert.Regexp(t, `^leat \S+ \(go\S+, \w+/\w+\)\n$`, done(t, "--version"))
}

func TestWrongUsage(t *testing.T) {
	in := func(args ...string) []string { return append(args, "-m", storiesFile) }
	for what, args := range map[string][]string{
		"there is no command":       {"nosuch"},
		"did you mean run?":         {"rum"},
		`no command "what"`:         {"help", "what"},
		"unknown flag: --what":      {"--what"},
		"unknown shorthand":         in("tokenize", "-x"),
		"no model":                  {"run", "-p", "a"},
		"name a GGUF file":          {"plan"},
		"with -m FILE":              {"tokenize", "a"},
		"no model: ":                {"logits", "--tokens", "1", "-o", "x"},
		"no model: name":            {"bench"},
		"FILE is missing":           {"inspect"},
		"TEXT is missing":           in("tokenize"),
		`"b": it takes one TEXT`:    in("tokenize", "a", "b"),
		`"b": it takes one FILE`:    {"inspect", "a", "b"},
		`"a": it takes no`:          in("run", "a"),
		`"p": it takes no`:          in("plan", "p"),
		`"d": it takes no`:          {"devices", "d"},
		"-p and -f":                 in("run", "-p", "a", "-f", "b"),
		"--temp":                    in("run", "-p", "a", "--temp"),
		"temperature of NaN":        in("run", "-p", "a", "--temp", "NaN"),
		"temperature of -1":         in("run", "-p", "a", "--temp", "-1"),
		`--temp "warm"`:             in("run", "-p", "a", "--temp", "warm"),
		"top-k of -1":               in("run", "-p", "a", "--top-k", "-1"),
		"top-p of 1.5":              in("run", "-p", "a", "--top-p", "1.5"),
		"min-p of -0.5":             in("run", "-p", "a", "--min-p", "-0.5"),
		"repeat penalty of NaN":     in("run", "-p", "a", "--repeat-penalty", "nan"),
		`--seed "-1"`:               in("run", "-p", "a", "--seed", "-1"),
		"-n 0":                      in("run", "-p", "a", "-n", "0"),
		"an empty --stop":           in("run", "-p", "a", "--stop", ""),
		`"cpux"`:                    in("run", "-p", "a", "--devices", "cpux"),
		"after cpu/":                in("plan", "--devices", "cpu/0"),
		"runs backwards":            in("plan", "--devices", "cpu:1-0"),
		"two budgets":               in("plan", "--devices", "cpu=1GiB=2GiB"),
		`--pack "tight"`:            in("plan", "--pack", "tight"),
		`--inflight "0"`:            in("plan", "--inflight", "0"),
		"or auto":                   in("plan", "--inflight", "many"),
		`--queue "1,-1"`:            in("plan", "--queue", "1,-1"),
		`--queue ""`:                in("plan", "--queue", ""),
		`--max-batch "0"`:           in("plan", "--max-batch", "0"),
		`--max-wait "-1s"`:          in("plan", "--max-wait", "-1s"),
		`--max-seqs "0"`:            in("plan", "--max-seqs", "0"),
		`--ctx "0"`:                 in("plan", "--ctx", "0"),
		`--kv "q4_0"`:               in("plan", "--kv", "q4_0"),
		`--kv-memory "some"`:        in("plan", "--kv-memory", "some"),
		`--reserve "-1"`:            in("plan", "--reserve", "-1"),
		`--threads "0"`:             in("plan", "--threads", "0"),
		"no tokens":                 in("logits", "-o", "x"),
		`--tokens ""`:               in("logits", "-o", "x", "--tokens", ""),
		`--tokens "1,,2"`:           in("logits", "-o", "x", "--tokens", "1,,2"),
		`--tokens "1,-2"`:           in("logits", "-o", "x", "--tokens", "1,-2"),
		"no output":                 in("logits", "--tokens", "1"),
		"-o - and --json":           in("logits", "--tokens", "1", "-o", "-", "--json"),
		`--prefill "0"`:             in("bench", "--prefill", "0"),
		`--decode "x"`:              in("bench", "--decode", "x"),
		`--concurrency "1,0"`:       in("bench", "--concurrency", "1,0"),
		`--repeat "0"`:              in("bench", "--repeat", "0"),
		`--json "maybe"`:            {"devices", "--json=maybe"},
		`invalid\x1b`:               {"invalid\x1b"},
		`unknown flag: --a\x1b\xff`: {"run", "--a\x1b\xff"},
	} {
		o := leat(t, args...)
		assert.Equal(t, exitUsage, o.status, "%q: %s", args, o.err)
		assert.Empty(t, o.out, args)
		assert.Contains(t, o.err, what)
		assert.Regexp(t, `^leat: [^\n]+\nRun 'leat[ a-z]* --help' for how it is used.\n$`, o.err)
	}
}

// A wrong value of a flag is told before a missing file, and a missing device is
// no wrong usage.
func TestFailures(t *testing.T) {
	assert.Equal(t, exitUsage, leat(t, "run", "-m", "nosuch.gguf", "-p", "a", "--temp", "-1").status)
	missing := filepath.Join(t.TempDir(), "no\x1bsuch.gguf")
	for _, args := range [][]string{
		{"run", "-p", "a", "-m", missing},
		{"plan", "-m", missing},
		{"inspect", missing},
		{"tokenize", "a", "-m", missing},
		{"logits", "--tokens", "1", "-o", "x", "-m", missing},
		{"bench", "-m", missing},
	} {
		failed(t, leat(t, args...), `no\x1bsuch.gguf: no such file`)
	}
	broken := writeFile(t, "broken.gguf", []byte("GGUF\x03\x00\x00\x00"))
	failed(t, leat(t, "inspect", broken), "broken.gguf", "number of tensors")
	failed(t, leat(t, "run", "-p", "a", "-m", storiesFile, "--devices", "cpu:4095"), "cpu:4095")
	failed(t, leat(t, "run", "-p", "a", "-m", storiesFile, "--threads", "65536"), "65536 threads")
	failed(t, leat(t, "plan", "-m", storiesFile, "--devices", "cuda:4095"), "cuda")
}

func TestOneLine(t *testing.T) {
	assert.Equal(t, `first; second: \x1b[31m \x00`, oneLine("first\n\n  second: \x1b[31m \x00\r\n"))
	assert.Equal(t, "é ▁ 漢 \uFFFD \\xe9\\xef", printable("é ▁ 漢 \uFFFD \xe9\xef"))
	assert.Equal(t, `\u202e`, printable("\u202e"), "text direction must not turn")
}
