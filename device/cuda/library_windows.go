//go:build amd64 || arm64

package cuda

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// libraryName is what the driver puts into the system's directory.
const libraryName = "nvcuda.dll"

// openLibrary loads the library of that name from the system's directory, and no
// other: whoever may write to the current directory may not bring his own.
func openLibrary(path string) (uintptr, error) {
	var flags uintptr
	if path == libraryName {
		flags = windows.LOAD_LIBRARY_SEARCH_SYSTEM32
	}
	handle, err := windows.LoadLibraryEx(path, 0, flags)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return uintptr(handle), nil
}

func lookUp(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
