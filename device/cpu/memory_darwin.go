package cpu

import "golang.org/x/sys/unix"

// memory returns the machine's memory in bytes, and 0 for the free memory, which means that
// it is not known: what macOS reports as free doesn't include caches that it would reclaim.
func memory() (total, free int64) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil || int64(n) < 0 {
		return 0, 0
	}
	return int64(n), 0
}
