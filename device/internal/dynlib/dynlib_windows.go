//go:build amd64 || arm64

package dynlib

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// Open loads a library, which remains loaded until the process ends. If system is true, path
// is a name that is looked up only in the system's directory, so that a library of that name
// in the current directory is not loaded. Otherwise it is a path.
func Open(path string, system bool) (handle uintptr, err error) {
	var flags uintptr
	if system {
		flags = windows.LOAD_LIBRARY_SEARCH_SYSTEM32
	}
	h, err := windows.LoadLibraryEx(path, 0, flags)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return uintptr(h), nil
}

// Find returns the entry point of a function of the library.
func Find(handle uintptr, name string) (entry uintptr, err error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
