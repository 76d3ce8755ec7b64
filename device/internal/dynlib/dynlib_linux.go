//go:build amd64 || arm64

package dynlib

import (
	"errors"
	"strings"

	"github.com/ebitengine/purego"
)

// Open loads a library, which remains loaded until the process ends. path is a path, or a
// name to be looked up in the system's library directories. system is used only on Windows.
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
