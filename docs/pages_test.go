// Package docs tests the documentation: whatever the pages show is run.
package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stories"
)

// fence is a fenced block of a page. Its kind says what is done with it:
//
//	sh              run in a folder that has model.gguf and in.jsonl; it must succeed
//	sh fails        run; it must fail
//	sh gpu          each line is a leat command that is right but for the GPUs that are missing
//	sh make         each line is a target of the Makefile
//	sh get          go get of this module
//	go              a whole program, run in the same folder
//	json NAME       written to a file of that name in the same folder
//	output          lines that the block before must have printed
//	text, mermaid   shown alone
type fence struct {
	kind string
	line int
	body string
}

var fenced = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func fences(page string) (all []fence) {
	for _, at := range fenced.FindAllStringSubmatchIndex(page, -1) {
		all = append(all, fence{page[at[2]:at[3]], 1 + strings.Count(page[:at[0]], "\n"), page[at[4]:at[5]]})
	}
	return all
}

// pages are the documentation's pages, by their paths from here.
func pages(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	require.NoError(t, err)
	return append(paths, "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// command builds leat once for all pages, and returns its folder.
func command(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	name := "leat"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../cmd/leat").CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// workplace is where a page's examples run.
type workplace struct {
	dir, root, bin string
}

func newWorkplace(t *testing.T, bin string) workplace {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	w := workplace{t.TempDir(), root, bin}
	w.write(t, "model.gguf", string(stories.GGUF))
	w.write(t, "in.jsonl", `{"id":1,"prompt":"Once upon a time","max_tokens":4}`+"\n")
	return w
}

func (w workplace) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o666))
}

// run runs a program in the workplace.
func (w workplace) run(t *testing.T, name string, args ...string) (out string, err error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "PATH="+w.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LEAT_RATES=off")
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err = c.Run()
	return both.String(), err
}

// shell runs a script. What it says of packages of this repository is looked up
// there.
func (w workplace) shell(t *testing.T, script string) (string, error) {
	t.Helper()
	packages := regexp.MustCompile(`(?m)^((?:\w+=\w+ )*)go (build|run) (.*)\./(cmd|examples)/(\w+)`)
	script = packages.ReplaceAllString(script, `${1}go $2 -C "$$ROOT" ${3}./$4/$5`)
	script = strings.ReplaceAll(script, "-o leat ", `-o "$WORK/built/leat" `)
	script = regexp.MustCompile(`(?m)(go run .*) model\.gguf`).ReplaceAllString(script, `$1 "$$WORK/model.gguf"`)
	return w.run(t, "bash", "-euc", fmt.Sprintf("ROOT=%q WORK=%q\n%s", filepath.ToSlash(w.root), filepath.ToSlash(w.dir), script))
}

func TestExamplesOfThePages(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash runs the pages' commands")
	}
	bin := command(t)
	for _, path := range pages(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			w := newWorkplace(t, bin)
			printed := ""
			for _, f := range fences(read(t, path)) {
				where := fmt.Sprintf("%s:%d", path, f.line)
				kind, name, _ := strings.Cut(f.kind, " ")
				var err error
				switch kind + " " + name {
				case "sh ":
					printed, err = w.shell(t, f.body)
					require.NoError(t, err, "%s\n%s\n%s", where, f.body, printed)
				case "sh fails":
					printed, err = w.shell(t, f.body)
					require.Error(t, err, "%s\n%s", where, f.body)
				case "sh gpu":
					w.lackingGPUs(t, where, f.body)
				case "sh make":
					checkTargets(t, where, f.body)
				case "sh get":
					assert.Equal(t, "go get github.com/leat-dev/leat\n", f.body, where)
				case "go ":
					w.write(t, "main.go", f.body)
					printed, err = w.program(t, "main.go")
					require.NoError(t, err, "%s\n%s", where, printed)
					assert.NotEmpty(t, printed, where)
				case "output ":
					for line := range strings.Lines(f.body) {
						assert.Contains(t, printed, strings.TrimSpace(line), where)
					}
				case "text ", "mermaid ", " ":
				default:
					require.Equal(t, "json", kind, "%s: a block of this kind is not tested", where)
					require.NotEmpty(t, name, "%s: JSON has the name of a file", where)
					w.write(t, name, f.body)
				}
			}
		})
	}
}

// program builds a program against this module and runs it in the workplace.
func (w workplace) program(t *testing.T, name string) (string, error) {
	t.Helper()
	built := filepath.Join(w.dir, "program.exe")
	c := exec.Command("go", "build", "-o", built, filepath.Join(w.dir, name))
	c.Dir = w.root
	if out, err := c.CombinedOutput(); err != nil {
		return string(out), err
	}
	return w.run(t, built)
}

// lackingGPUs runs commands that are right on a machine with GPUs.
func (w workplace) lackingGPUs(t *testing.T, where, body string) {
	t.Helper()
	for line := range strings.Lines(body) {
		require.True(t, strings.HasPrefix(line, "leat "), "%s: %s", where, line)
		out, err := w.shell(t, line)
		if err == nil {
			continue // there are GPUs
		}
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, where)
		assert.Equal(t, 1, exit.ExitCode(), "%s: %s\n%s", where, line, out)
		assert.Regexp(t, `^leat: .*cuda`, out, "%s: %s", where, line)
	}
}

// checkTargets checks that make knows each target.
func checkTargets(t *testing.T, where, body string) {
	t.Helper()
	makefile := read(t, "../Makefile") + read(t, "../gpu.mk") + read(t, "../arm64.mk")
	for line := range strings.Lines(body) {
		words := strings.Fields(line)
		require.GreaterOrEqual(t, len(words), 2, "%s: %s", where, line)
		require.Equal(t, "make", words[0], where)
		assert.True(t, regexp.MustCompile(`(?m)^`+words[1]+`:`).MatchString(makefile), "%s: there is no target %s", where, words[1])
	}
}

var linked = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, path := range pages(t) {
		text := fenced.ReplaceAllString(read(t, path), "")
		for _, link := range linked.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), filepath.FromSlash(target))
			}
			if _, err := os.Stat(file); !assert.NoError(t, err, "%s links to %s", path, link[1]) {
				continue
			}
			if anchor != "" {
				assert.Contains(t, anchors(read(t, file)), anchor, "%s links to %s", path, link[1])
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are what a page's headings are linked by.
func anchors(page string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		name := strings.ReplaceAll(strings.ToLower(h[1]), " ", "-")
		all = append(all, regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(name, ""))
	}
	return all
}

// Some page links to every other page.
func TestNothingIsLeftOut(t *testing.T) {
	found := map[string]bool{}
	for _, path := range pages(t) {
		for _, link := range linked.FindAllStringSubmatch(read(t, path), -1) {
			target, _, _ := strings.Cut(link[1], "#")
			found[filepath.Base(target)] = true
		}
	}
	for _, path := range pages(t) {
		assert.True(t, found[filepath.Base(path)] || path == "../README.md", "no page links to %s", path)
	}
}

// Every package can be found on the page about packages.
func TestEveryPackageHasItsPromise(t *testing.T) {
	out, err := exec.Command("go", "list", "../...").CombinedOutput()
	require.NoError(t, err, string(out))
	page := read(t, "api.md")
	for path := range strings.Lines(string(out)) {
		path = strings.TrimPrefix(strings.TrimSpace(path), "github.com/leat-dev/leat/")
		if strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "examples/") || strings.HasPrefix(path, "docs") || strings.Contains("/"+path+"/", "/internal/") {
			continue
		}
		assert.True(t, strings.Contains(page, "`"+path+"`"), "%s is a package without a promise", path)
	}
}

func TestFences(t *testing.T) {
	got := fences("a\n```sh fails\nx\ny\n```\nb\n```go\n```\n")
	assert.Equal(t, []fence{{"sh fails", 2, "x\ny\n"}, {"go", 7, ""}}, got)
}

func TestAnchors(t *testing.T) {
	assert.Equal(t, []string{"placement-files", "the-demo", "whats-new-01"}, anchors("# Placement files\ntext\n## The demo\n### What's new (0.1)\n"))
}
