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

// memoryIn reads the machine's memory from proc/meminfo, and takes the limits of
// the process's control groups where they are lower.
func memoryIn(root fs.FS) (total, free int64) {
	info := table(root, "proc/meminfo")
	total, free = kibibytes(info["MemTotal"]), kibibytes(info["MemAvailable"])
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var v cgroupVersion
		switch {
		case fields[1] == "":
			v = cgroup2
		case strings.Contains(","+fields[1]+",", ",memory,"):
			v = cgroup1
		default:
			continue
		}
		// A limit holds for all groups below it. Within a container the path may
		// be one of the host's, which isn't there; the mount's own root is.
		for group := path.Join("/", fields[2]); ; group = path.Dir(group) {
			limit, left := v.read(root, path.Join(v.mount, group))
			total, free = lower(total, limit), lower(free, left)
			if group == "/" {
				break
			}
		}
	}
	return total, free
}

// cgroupVersion says how a version of control groups names its files.
type cgroupVersion struct{ mount, limit, usage, cache string }

var (
	cgroup1 = cgroupVersion{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	cgroup2 = cgroupVersion{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
)

// read returns a group's limit and what is left of it, counting as free the
// cached file pages that the kernel gives up first; both MaxInt64 where there is
// no limit.
func (v cgroupVersion) read(root fs.FS, dir string) (limit, left int64) {
	limit, ok := integer(root, path.Join(dir, v.limit))
	if !ok {
		return math.MaxInt64, math.MaxInt64
	}
	used, _ := integer(root, path.Join(dir, v.usage))
	cache, _ := strconv.ParseInt(table(root, path.Join(dir, "memory.stat"))[v.cache], 10, 64)
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

// integer reads a file of one number; "max" and whatever else isn't one.
func integer(root fs.FS, name string) (int64, bool) {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil && n >= 0
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
