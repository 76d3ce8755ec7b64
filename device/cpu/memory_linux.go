package cpu

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// memory returns the bytes of memory that the process may use and those of them
// that are free; 0: not known.
func memory() (total, free int64) { return memoryIn(os.DirFS("/")) }

// memoryIn reads the memory of the machine from proc/meminfo, and takes the limits of
// the process's control groups where they are lower.
func memoryIn(root fs.FS) (total, free int64) {
	info := table(root, "proc/meminfo")
	total, free = kibibytes(info["MemTotal"]), kibibytes(info["MemAvailable"])
	for _, g := range groups(root, "memory") {
		limit, left := g.memory(root)
		total, free = lower(total, limit), lower(free, left)
	}
	return total, free
}

// memoryFiles are the names of a group's files by the version of the interface, and
// that of the row of memory.stat that counts the file pages that the kernel reclaims
// first.
var memoryFiles = map[int]struct{ limit, usage, cache string }{
	1: {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
	2: {"memory.max", "memory.current", "inactive_file"},
}

// memory returns a group's limit and what is left of it, where cached file pages that
// the kernel reclaims first count as free; both are MaxInt64 if there is no limit.
func (g group) memory(root fs.FS) (limit, left int64) {
	v := memoryFiles[g.version]
	limit, ok := integer(root, path.Join(g.dir, v.limit))
	if !ok {
		return math.MaxInt64, math.MaxInt64
	}
	used, _ := integer(root, path.Join(g.dir, v.usage))
	cache, _ := strconv.ParseInt(table(root, path.Join(g.dir, "memory.stat"))[v.cache], 10, 64)
	used = max(0, used-max(0, cache))
	return limit, max(1, limit-used) // 0 would mean that it isn't known
}

// lower returns the lower of a known size and a limit, the size being 0 where
// it isn't known.
func lower(size, limit int64) int64 {
	if size == 0 && limit != math.MaxInt64 {
		return limit
	}
	return min(size, limit)
}

// table reads a file of names and values, one pair a line.
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

func kibibytes(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/1024 {
		return 0
	}
	return n * 1024
}
