package cpu

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func files(texts map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range texts {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestQuota(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"nothing known", nil, math.MaxInt},
		{"no quota", map[string]string{
			"proc/self/cgroup":          "0::/app\n",
			"sys/fs/cgroup/app/cpu.max": "max 100000\n",
		}, math.MaxInt},
		{"two cores", map[string]string{
			"proc/self/cgroup":          "0::/app\n",
			"sys/fs/cgroup/app/cpu.max": "200000 100000\n",
		}, 2},
		{"a fraction is rounded up", map[string]string{
			"proc/self/cgroup":          "0::/app\n",
			"sys/fs/cgroup/app/cpu.max": "150000 100000\n",
		}, 2},
		{"less than a core", map[string]string{
			"proc/self/cgroup":          "0::/app\n",
			"sys/fs/cgroup/app/cpu.max": "10000 100000\n",
		}, 1},
		{"the lowest of all groups above", map[string]string{
			"proc/self/cgroup":            "0::/a/b/c\n",
			"sys/fs/cgroup/a/b/c/cpu.max": "800000 100000\n",
			"sys/fs/cgroup/a/b/cpu.max":   "max 100000\n",
			"sys/fs/cgroup/a/cpu.max":     "300000 50000\n",
		}, 6},
		{"version 1", map[string]string{
			"proc/self/cgroup":                            "4:cpu,cpuacct:/app\n3:memory:/other\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us":      "250000\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_period_us":     "100000\n",
			"sys/fs/cgroup/cpu/other/cpu.cfs_quota_us":    "1\n",
			"sys/fs/cgroup/memory/other/cpu.cfs_quota_us": "1\n",
		}, 3},
		{"version 1 without a quota", map[string]string{
			"proc/self/cgroup":                        "4:cpu:/app\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
		}, math.MaxInt},
		{"version 1 in a container, mounted under both controllers' names", map[string]string{
			"proc/self/cgroup":                             "4:cpu,cpuacct:/docker/4711\n",
			"proc/self/mountinfo":                          "33 25 0:28 /docker/4711 /sys/fs/cgroup/cpu,cpuacct ro,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":   "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":  "100000\n",
			"sys/fs/cgroup/cpu/docker/4711/cpu.cfs_period": "1",
		}, 1},
		{"version 2 beside version 1", map[string]string{
			"proc/self/cgroup":                  "3:memory:/\n0::/app\n",
			"proc/self/mountinfo":               "a line\n34 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/unified/app/cpu.max": "400000 100000\n",
		}, 4},
		{"nonsense", map[string]string{
			"proc/self/cgroup":      "0::/\n",
			"sys/fs/cgroup/cpu.max": "a b\n",
		}, math.MaxInt},
		{"a period of nothing", map[string]string{
			"proc/self/cgroup":      "0::/\n",
			"sys/fs/cgroup/cpu.max": "5 0\n",
		}, math.MaxInt},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, quotaIn(files(test.files))) })
	}
}
