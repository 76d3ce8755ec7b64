package cpu

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// quota returns the CPU time that the process's control groups grant it, as a number of
// cores rounded up, or MaxInt if there is no limit.
func quota() int { return quotaIn(os.DirFS("/")) }

func quotaIn(root fs.FS) int {
	least := math.MaxInt
	for _, g := range groups(root, "cpu") {
		least = min(least, g.cores(root))
	}
	return least
}

// cores returns a group's quota as a number of cores rounded up, or MaxInt if it has none.
func (g group) cores(root fs.FS) int {
	var time, period int64 // microseconds
	switch g.version {
	case 1:
		var ok bool
		if time, ok = integer(root, path.Join(g.dir, "cpu.cfs_quota_us")); !ok {
			return math.MaxInt
		}
		period, _ = integer(root, path.Join(g.dir, "cpu.cfs_period_us"))
	default:
		text, _ := fs.ReadFile(root, path.Join(g.dir, "cpu.max"))
		fields := strings.Fields(string(text)) // "max 100000" if there is no limit
		if len(fields) != 2 {
			return math.MaxInt
		}
		time, _ = strconv.ParseInt(fields[0], 10, 64)
		period, _ = strconv.ParseInt(fields[1], 10, 64)
	}
	if time <= 0 || period <= 0 {
		return math.MaxInt
	}
	return int((time-1)/period + 1)
}
