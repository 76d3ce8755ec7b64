package calibrate

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/leat-dev/leat/device"
)

// method is the number of the way in which rates are measured. It changes when
// rates of before can't be compared with those of after.
const method = 1

// key is what rates belong to.
type key struct {
	Device string `json:"device"`
	Build  string `json:"build"`
}

// identity says which device it is. CPU devices differ by the number of threads
// that work for them, not by which cores these are on: see [Cache.Load].
func identity(d device.Info) string {
	if d.Kind == device.CPU {
		return fmt.Sprintf("%s %q, %d threads, %s", d.Kind, d.Description, min(len(d.Cores), runtime.GOMAXPROCS(0)), d.SIMD)
	}
	return fmt.Sprintf("%s %q, %d bytes", d.Name, d.Description, d.Memory)
}

// build says which build of this package the program has. A tree with changes
// that were not committed is one build, whatever the changes.
var build = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return describe(info)
})

// module is the path of the module that this package belongs to.
const module = "github.com/leat-dev/leat"

// describe returns what is known of a build, of which info may be nil.
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
			// Of the program's own tree, which isn't ours where it imports us.
			if ours {
				words = append(words, word(s.Key, s.Value)...)
			}
		case "-race", "-gcflags", "-tags", "GOAMD64", "GOARM64":
			words = append(words, word(s.Key, s.Value)...)
		}
	}
	return strings.Join(words, ", ")
}

func word(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{name + " " + value}
}
