package gguf

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forget has the process give back the pages of the mapping that hold data, which must be
// acquired. They are the file's: whoever reads them again gets them from the file.
func (c *contents) forget(data []byte) {
	if c.file == nil || len(data) == 0 {
		return
	}
	first, start := uintptr(unsafe.Pointer(unsafe.SliceData(c.data))), uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if start < first || start-first > uintptr(len(c.data)-len(data)) {
		return // no part of the file
	}
	page := os.Getpagesize()
	from := int(start - first)
	to := min((from+len(data)+page-1)/page*page, len(c.data))
	from = from / page * page
	_ = unix.Madvise(c.data[from:to], unix.MADV_DONTNEED) // advice, and no more
}
