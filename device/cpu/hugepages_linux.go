package cpu

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// hugeFrom is the size in bytes from which a mapping uses huge pages. For smaller mappings,
// rounding up to whole huge pages would waste more than fewer page walks save.
const hugeFrom = 4 << 20

// adviseHuge asks the kernel to use huge pages. It ignores the error of a kernel that
// doesn't support them.
func adviseHuge(mem []byte) {
	if len(mem) >= hugeFrom {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
}

// hugePages reports whether the kernel puts mappings that ask for it on huge pages.
func hugePages() bool {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && hugePagesOf(string(setting))
}

// hugePagesOf reads the kernel's setting, of which the chosen word is in brackets.
func hugePagesOf(setting string) bool {
	return strings.Contains(setting, "[always]") || strings.Contains(setting, "[madvise]")
}
