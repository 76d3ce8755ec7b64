package cpu

import "golang.org/x/sys/unix"

// hugeFrom is the size from which a mapping asks for huge pages: below, the
// rounding to whole ones would cost more than the fewer page walks bring.
const hugeFrom = 4 << 20

// adviseHuge asks for huge pages. A kernel without them says no, which is fine.
func adviseHuge(mem []byte) {
	if len(mem) >= hugeFrom {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
}
