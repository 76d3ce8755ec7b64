//go:build unix

package cpu

import "golang.org/x/sys/unix"

// mapMemory returns n zeroed bytes outside the Go heap, aligned to a page. n must be
// positive.
func mapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		adviseHuge(mem)
	}
	return mem, err
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }
