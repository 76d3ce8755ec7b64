package cpu

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// memory returns how many bytes of memory the process may use, and how many of them are
// free. A result is 0 if it is not known.
func memory() (total, free int64) { return memoryIn(os.DirFS("/")) }

// memoryIn reads the machine's memory from proc/meminfo, and applies the limits of the
// process's control groups if they are lower.
func memoryIn(root fs.FS) (total, free int64) {
	info := table(root, "proc/meminfo")
	total, free = kibibytes(info["MemTotal"]), kibibytes(info["MemAvailable"])
	for _, g := range groups(root, "memory") {
		limit, left := g.memory(root)
		total, free = lower(total, limit), lower(free, left)
	}
	return total, free
}

// memoryFiles holds, for each version of the interface, the names of a group's files with
// the limit and the usage, and the key in memory.stat of the inactive file cache, which the
// kernel reclaims first.
var memoryFiles = map[int]struct{ limit, usage, cache string }{
	1: {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
	2: {"memory.max", "memory.current", "inactive_file"},
}

// memory returns a group's limit and how much of it is left, in bytes. Inactive file cache
// counts as left, because the kernel reclaims it first. Both are MaxInt64 if there is no
// limit.
func (g group) memory(root fs.FS) (limit, left int64) {
	v := memoryFiles[g.version]
	limit, ok := integer(root, path.Join(g.dir, v.limit))
	if !ok {
		return math.MaxInt64, math.MaxInt64
	}
	used, _ := integer(root, path.Join(g.dir, v.usage))
	cache, _ := strconv.ParseInt(table(root, path.Join(g.dir, "memory.stat"))[v.cache], 10, 64)
	used = max(0, used-max(0, cache))
	return limit, max(1, limit-used) // not 0, which would mean that it is not known
}

// lower returns the lower of a size, which is 0 if not known, and a limit, which is
// MaxInt64 if there is none.
func lower(size, limit int64) int64 {
	if size == 0 && limit != math.MaxInt64 {
		return limit
	}
	return min(size, limit)
}

// table reads a file that has a name and a value on each line.
func table(root fs.FS, name string) map[string]string {
	data, _ := fs.ReadFile(root, name)
	t := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 {
			t[strings.TrimSuffix(f[0], ":")] = f[1]
		}
	}
	return t
}

// kibibytes returns the bytes in a decimal number of KiB, or 0 if s is not one.
func kibibytes(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/1024 {
		return 0
	}
	return n * 1024
}
