package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
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
	for _, name := range []string{"demo", "run", "batch", "plan", "devices", "inspect", "tokenize", "logits", "bench", "version", "completion"} {
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
}

// Help is as wide as the terminal, and its columns stand under each other.
func TestHelpFits(t *testing.T) {
	for _, c := range append(rootCommand().Commands(), rootCommand()) {
		var b strings.Builder
		c.SetOut(&b)
		c.InitDefaultHelpFlag()
		for _, width := range []int{20, 50, 80, 200} {
			b.Reset()
			page(c, &b, width)
			preformatted := c.Example + c.Long + c.UseLine()
			for line := range strings.Lines(b.String()) {
				line = strings.TrimRight(line, "\n")
				name, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
				if strings.Contains(preformatted, strings.TrimSpace(line)) || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "leat ") || !strings.Contains(name, " ") {
					continue
				}
				assert.LessOrEqual(t, ansi.StringWidth(line), min(width, widestHelp), "%q", line)
			}
		}
	}
	help := done(t, "bench", "--help")
	column := -1
	for line := range strings.Lines(help) {
		for _, about := range []string{"lengths of prompts", "lengths of continuations", "sequences at once", "print JSON"} {
			if before, _, ok := strings.Cut(line, about); ok {
				if column < 0 {
					column = ansi.StringWidth(before)
				}
				assert.Equal(t, column, ansi.StringWidth(before), line)
			}
		}
	}
	assert.Positive(t, column)
	assert.Contains(t, help, "\nPipeline flags:\n")
	assert.Contains(t, done(t, "run", "--help"), "\nGeneration flags:\n")
}

// Whatever can't print its result fails, help included.
func TestCantWrite(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--help"}, {"help", "run"}, {"run", "--help"}, {"version"}, {"--version"}, {"completion", "bash"},
		{"devices"}, {"inspect", storiesFile}, {"plan", "-m", storiesFile}, {"tokenize", "-m", storiesFile, "a"},
		{"plan", "-m", storiesFile, "--svg", "-"}, {"logits", "-m", storiesFile, "--tokens", "1", "-o", "-"},
	} {
		var stderr strings.Builder
		status := run(t.Context(), args, strings.NewReader(""), full{}, &stderr)
		failed(t, outcome{status, "", stderr.String()}, "disk is full")
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range shells {
		assert.Contains(t, done(t, "completion", shell), "leat", shell)
	}
	assert.Contains(t, leat(t, "__complete", "plan", "--pack", "").out, "first-fit\n")
	assert.Contains(t, leat(t, "__complete", "completion", "").out, "zsh\n")
}

func TestVersion(t *testing.T) {
	text := done(t, "version")
	assert.Regexp(t, `^leat \S+\ncommit: .+\nbuilt with: go\S+ for \w+/\w+\nbackends: .*cpu\n$`, text)
	assert.Equal(t, text, done(t, "--version"))
	v := document[versionDocument](t, "version", "--json")
	assert.Equal(t, runtime.Version(), v.Go)
	assert.Contains(t, v.Backends, "cpu")
}

func TestWrongUsage(t *testing.T) {
	in := func(args ...string) []string { return append(args, "-m", storiesFile) }
	for what, args := range map[string][]string{
		"there is no command":        {"nosuch"},
		"did you mean run?":          {"rum"},
		`no command "what"`:          {"help", "what"},
		"unknown flag: --what":       {"--what"},
		"unknown shorthand":          in("tokenize", "-x"),
		"no model":                   {"run", "-p", "a"},
		"name a GGUF file":           {"plan"},
		"with -m FILE":               {"tokenize", "a"},
		"no model: ":                 {"logits", "--tokens", "1", "-o", "x"},
		"no model: name":             {"bench"},
		"FILE is missing":            {"inspect"},
		"TEXT is missing":            in("tokenize"),
		`"b": it takes one TEXT`:     in("tokenize", "a", "b"),
		`"b": it takes one FILE`:     {"inspect", "a", "b"},
		`"a": it takes no`:           in("run", "a"),
		`"p": it takes no`:           in("plan", "p"),
		`"d": it takes no`:           {"devices", "d"},
		"for the shell \"sh\"":       {"completion", "sh"},
		"SHELL is missing":           {"completion"},
		`"a" and -m exclude`:         {"inspect", "a", "-m", "b"},
		`--raw "maybe": it may be t`: in("run", "-p", "a", "--raw=maybe"),
		`--seed "x": it may be a wh`: in("run", "-p", "a", "--seed", "x"),
		"repeat penalty of 0":        in("run", "-p", "a", "--repeat-penalty", "0"),
		"from 0 to 2147483647":       in("run", "-p", "a", "--top-k", "9999999999"),
		"--trace: a plan runs":       in("plan", "--trace", "x"),
		"--trace: no file":           in("run", "-p", "a", "--trace", ""),
		"--placement: no file":       in("plan", "--placement", ""),
		"--svg: no file":             in("plan", "--svg", ""),
		"-f: no file":                in("run", "-f", ""),
		"-o: no file":                in("logits", "--tokens", "1", "-o", ""),
		"--sweep-time needs":         in("bench", "--sweep-time", "1s"),
		"--sweep and --prefill":      in("bench", "--sweep", "--prefill", "1"),
		"give the prompt with -p":    in("run", "--placement", "-"),
		"be read once":               in("batch", "-i", "-", "-o", "x", "--placement", "-"),
		"are cpu, cuda, rocm and":    in("plan", "--what-if", "tpu:0"),
		"-p and -f":                  in("run", "-p", "a", "-f", "b"),
		"--temp":                     in("run", "-p", "a", "--temp"),
		"temperature of NaN":         in("run", "-p", "a", "--temp", "NaN"),
		"temperature of -1":          in("run", "-p", "a", "--temp", "-1"),
		`--temp "warm"`:              in("run", "-p", "a", "--temp", "warm"),
		"top-k of -1":                in("run", "-p", "a", "--top-k", "-1"),
		"top-p of 1.5":               in("run", "-p", "a", "--top-p", "1.5"),
		"min-p of -0.5":              in("run", "-p", "a", "--min-p", "-0.5"),
		"repeat penalty of NaN":      in("run", "-p", "a", "--repeat-penalty", "nan"),
		`--seed "-1"`:                in("run", "-p", "a", "--seed", "-1"),
		"-n 0":                       in("run", "-p", "a", "-n", "0"),
		"an empty --stop":            in("run", "-p", "a", "--stop", ""),
		`"cpux"`:                     in("run", "-p", "a", "--devices", "cpux"),
		"after cpu/":                 in("plan", "--devices", "cpu/0"),
		"runs backwards":             in("plan", "--devices", "cpu:1-0"),
		"two budgets":                in("plan", "--devices", "cpu=1GiB=2GiB"),
		`--pack "tight"`:             in("plan", "--pack", "tight"),
		`--inflight "0"`:             in("plan", "--inflight", "0"),
		"or auto":                    in("plan", "--inflight", "many"),
		`--queue "1,-1"`:             in("plan", "--queue", "1,-1"),
		`--queue ""`:                 in("plan", "--queue", ""),
		`--max-batch "0"`:            in("plan", "--max-batch", "0"),
		`--max-wait "-1s"`:           in("plan", "--max-wait", "-1s"),
		`--max-seqs "0"`:             in("plan", "--max-seqs", "0"),
		`--ctx "0"`:                  in("plan", "--ctx", "0"),
		`--kv "q4_0"`:                in("plan", "--kv", "q4_0"),
		`--kv-memory "some"`:         in("plan", "--kv-memory", "some"),
		`--reserve "-1"`:             in("plan", "--reserve", "-1"),
		`--threads "0"`:              in("plan", "--threads", "0"),
		"no tokens":                  in("logits", "-o", "x"),
		`--tokens ""`:                in("logits", "-o", "x", "--tokens", ""),
		`--tokens "1,,2"`:            in("logits", "-o", "x", "--tokens", "1,,2"),
		`--tokens "1,-2"`:            in("logits", "-o", "x", "--tokens", "1,-2"),
		"no output":                  in("logits", "--tokens", "1"),
		"-o - and --json":            in("logits", "--tokens", "1", "-o", "-", "--json"),
		`--prefill "0"`:              in("bench", "--prefill", "0"),
		`--decode "x"`:               in("bench", "--decode", "x"),
		`--concurrency "1,0"`:        in("bench", "--concurrency", "1,0"),
		`--repeat "0"`:               in("bench", "--repeat", "0"),
		`--json "maybe"`:             {"devices", "--json=maybe"},
		`invalid\x1b`:                {"invalid\x1b"},
		`unknown flag: --a\x1b\xff`:  {"run", "--a\x1b\xff"},
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
	long := oneLine(strings.Repeat("é", 5000) + "what to do")
	assert.Less(t, len(long), 1000)
	assert.True(t, strings.HasPrefix(long, "éé") && strings.HasSuffix(long, "what to do"))
	assert.Equal(t, `\u202e`, printable("\u202e"), "text direction must not turn")
}
