// Dist builds the release archives, each with the command for one platform and its licences, and
// the file SHA256SUMS. The same commit and the same version of Go give the same bytes on every
// machine: paths are trimmed, and all times are the commit's.
//
//	go run ./internal/dist -o build/dist
//
// It builds the last commit, in a clone of the repository, so that a release has no uncommitted
// changes. The version is the one that Go records in the binary: the commit's tag or, if it has
// none, a pseudo-version.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// targets are the platforms, as GOOS/GOARCH.
var targets = []string{
	"darwin/amd64", "darwin/arm64",
	"linux/amd64", "linux/arm64",
	"windows/amd64", "windows/arm64",
}

// documents are the files in an archive besides the command. The keys are their paths in the
// repository, and the values their names in the archive.
var documents = map[string]string{
	"README.md":                "README.md",
	"CHANGELOG.md":             "CHANGELOG.md",
	"LICENSE":                  "LICENSE",
	"internal/stories/LICENSE": "LICENSE-demo-model",
}

func main() {
	log.SetFlags(0)
	out := flag.String("o", "build/dist", "the `FOLDER` to write to; its former contents are removed")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatal("dist: ", err)
	}
}

// run writes all archives and SHA256SUMS to the folder out, which it removes first.
func run(out string) error {
	work, err := os.MkdirTemp("", "leat-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source := filepath.Join(work, "source")
	if output, err := exec.Command("git", "clone", "--quiet", ".", source).CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w: %s", err, output)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	sums := map[string][sha256.Size]byte{}
	for _, target := range targets {
		system, processor, _ := strings.Cut(target, "/")
		b, err := build(source, work, system, processor)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		files, err := b.files(source)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("leat-%s-%s-%s", b.version, system, processor)
		pack, ending := tarGzip, ".tar.gz"
		if system == "windows" {
			pack, ending = zipped, ".zip"
		}
		data, err := pack(name, files, b.at)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, name+ending), data, 0o666); err != nil {
			return err
		}
		sums[name+ending] = sha256.Sum256(data)
		fmt.Printf("%s%s %.1f MB\n", name, ending, float64(len(data))/1e6)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sumsOf(sums)), 0o666)
}

// sumsOf returns the sums in the format of sha256sum, ordered by name.
func sumsOf(sums map[string][sha256.Size]byte) string {
	var lines []string
	for name, sum := range sums {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum, name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return strings.Join(lines, "")
}

// built is the command for one platform.
type built struct {
	path    string
	name    string    // in the archive
	version string    // without the v
	at      time.Time // of the commit
}

// build builds the command from the clone in source, and reads the version and the time of the
// commit that Go recorded in the binary.
func build(source, work, system, processor string) (b built, err error) {
	b.name = "leat"
	if system == "windows" {
		b.name += ".exe"
	}
	b.path = filepath.Join(work, system+"-"+processor+"-"+b.name)
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", b.path, "./cmd/leat")
	c.Dir = source
	// Set all variables that affect the binary, regardless of the environment.
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return b, err
	}
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return b, err
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if b.at, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return b, err
			}
		}
	}
	b.version = strings.TrimPrefix(info.Main.Version, "v")
	if b.at.IsZero() || b.version == "" || b.version == "(devel)" {
		return b, errors.New("the binary has no version of its commit")
	}
	return b, nil
}

// files returns the files of a build's archive, ordered by name.
func (b built) files(source string) (files []file, err error) {
	add := func(path, name string, mode os.FileMode) {
		data, failed := os.ReadFile(path)
		err = errors.Join(err, failed)
		files = append(files, file{name, mode, data})
	}
	add(b.path, b.name, 0o755)
	for path, name := range documents {
		add(filepath.Join(source, path), name, 0o644)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, err
}
