package cpu

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX of the Windows API.
type memoryStatus struct {
	length, load                                      uint32
	totalPhysical, freePhysical                       uint64
	totalPageFile, freePageFile, totalVirtual, unused uint64
	freeExtendedVirtual                               uint64
}

// memory returns the machine's memory and its free memory in bytes. A result is 0 if it is
// not known.
func memory() (total, free int64) {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if globalMemoryStatusEx.Find() != nil {
		return 0, 0
	}
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return 0, 0
	}
	return int64(s.totalPhysical), int64(s.freePhysical)
}
