//go:build !((linux || windows) && (amd64 || arm64))

package cuda

import (
	"errors"
	"fmt"
	"runtime"
)

const libraryName = "CUDA"

func openLibrary(string) (uintptr, error) {
	return 0, fmt.Errorf("there is no CUDA for %s on %s", runtime.GOOS, runtime.GOARCH)
}

func lookUp(uintptr, string) (uintptr, error) { return 0, errors.ErrUnsupported }
