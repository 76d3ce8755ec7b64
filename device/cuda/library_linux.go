//go:build amd64 || arm64

package cuda

import (
	"errors"
	"strings"

	"github.com/ebitengine/purego"
)

// libraryName is what the driver's packages call it.
const libraryName = "libcuda.so.1"

func openLibrary(path string) (uintptr, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil && !strings.Contains(err.Error(), path) {
		err = errors.New(path + ": " + err.Error())
	}
	return handle, err
}

func lookUp(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }
