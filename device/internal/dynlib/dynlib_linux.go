//go:build amd64 || arm64

package dynlib

import (
	"errors"
	"strings"

	"github.com/ebitengine/purego"
)

// Open loads the library at path, or of that name in the system's directories. It stays
// loaded. system, which says that it is the system's own, matters on Windows alone.
func Open(path string, system bool) (handle uintptr, err error) {
	handle, err = purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil && !strings.Contains(err.Error(), path) {
		err = errors.New(path + ": " + err.Error())
	}
	return handle, err
}

// Find returns the entry point of a function of the library.
func Find(handle uintptr, name string) (entry uintptr, err error) {
	return purego.Dlsym(handle, name)
}
