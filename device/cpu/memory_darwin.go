package cpu

import "golang.org/x/sys/unix"

// memory returns the machine's memory in bytes. How much of it is free isn't
// known: what macOS calls free leaves out the caches that it would give up.
func memory() (total, free int64) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil || int64(n) < 0 {
		return 0, 0
	}
	return int64(n), 0
}
