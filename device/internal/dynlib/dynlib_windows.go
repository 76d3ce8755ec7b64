//go:build amd64 || arm64

package dynlib

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// Open loads the library at path, or, where system says that it is the system's own,
// that of the name in the system's directory, and no other: whoever may write to the
// current directory may not bring his own. It stays loaded.
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
