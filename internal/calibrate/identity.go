package calibrate

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/leat-dev/leat/device"
)

// method is the version of the measuring method. It must be incremented if rates measured before
// a change can't be compared with those measured after it.
const method = 1

// key identifies what was measured.
type key struct {
	Device string `json:"device"`
	Build  string `json:"build"`
}

// identity returns a description of the device that is the same for devices of the same speed.
// For CPU devices it has the number of threads, but not the cores: see [Load].
func identity(d device.Info) string {
	if d.Kind == device.CPU {
		return fmt.Sprintf("%s %q, %d threads, %s", d.Kind, d.Description, min(len(d.Cores), runtime.GOMAXPROCS(0)), d.SIMD)
	}
	return fmt.Sprintf("%s %q, %d bytes", d.Name, d.Description, d.Memory)
}

// build returns a description of the build of this package. It doesn't distinguish between
// different uncommitted changes of the same commit.
var build = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return describe(info)
})

// module is the path of the module that this package belongs to.
const module = "github.com/leat-dev/leat"

// describe returns a description of a build. info may be nil.
func describe(info *debug.BuildInfo) string {
	words := []string{fmt.Sprintf("method %d", method), runtime.GOOS + "/" + runtime.GOARCH, runtime.Version()}
	if info == nil {
		return strings.Join(words, ", ")
	}
	ours := info.Main.Path == module
	if ours {
		words = append(words, word("version", info.Main.Version)...)
	}
	for _, m := range info.Deps {
		if m.Path != module {
			continue
		}
		words = append(words, word("version", m.Version)...)
		if m.Replace != nil {
			words = append(words, word("from", m.Replace.Path)...)
			words = append(words, word("version", m.Replace.Version)...)
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision", "vcs.modified":
			// These are of the main module's repository, which need not be Leat's.
			if ours {
				words = append(words, word(s.Key, s.Value)...)
			}
		case "-race", "-gcflags", "-tags", "GOAMD64", "GOARM64":
			words = append(words, word(s.Key, s.Value)...)
		}
	}
	return strings.Join(words, ", ")
}

// word returns a setting as one element of a description, or none if the value is empty.
func word(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{name + " " + value}
}
