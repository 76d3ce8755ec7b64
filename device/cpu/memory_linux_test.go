package cpu

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	const GiB = 1 << 30
	machine := map[string]string{"proc/meminfo": "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n"}
	for _, test := range []struct {
		name        string
		files       map[string]string
		total, free int64
	}{
		{"nothing known", map[string]string{"proc/meminfo": ""}, 0, 0},
		{"the machine's", nil, 8 * GiB, 4 * GiB},
		{"a group without a limit", map[string]string{
			"proc/self/cgroup":               "0::/app\n",
			"sys/fs/cgroup/app/memory.max":   "max\n",
			"sys/fs/cgroup/app/memory.stat":  "inactive_file 5\n",
			"sys/fs/cgroup/memory.something": "",
		}, 8 * GiB, 4 * GiB},
		{"a group's limit, its caches free", map[string]string{
			"proc/self/cgroup":                 "0::/app\n",
			"sys/fs/cgroup/app/memory.max":     "2147483648\n",
			"sys/fs/cgroup/app/memory.current": "1073741824\n",
			"sys/fs/cgroup/app/memory.stat":    "anon 7\ninactive_file 536870912\n",
		}, 2 * GiB, 3 * GiB / 2},
		{"a limit further up", map[string]string{
			"proc/self/cgroup":                    "0::/app/worker\n",
			"sys/fs/cgroup/app/worker/memory.max": "max\n",
			"sys/fs/cgroup/app/memory.max":        "2147483648\n",
			"sys/fs/cgroup/app/memory.current":    "1073741824\n",
		}, 2 * GiB, 1 * GiB},
		{"in a container, the path is the host's", map[string]string{
			"proc/self/cgroup":             "0::/../../host/path\n",
			"sys/fs/cgroup/memory.max":     "1073741824\n",
			"sys/fs/cgroup/memory.current": "0\n",
		}, 1 * GiB, 1 * GiB},
		{"a limit above the machine's memory", map[string]string{
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "9223372036854771712\n",
			"sys/fs/cgroup/memory.current": "0\n",
		}, 8 * GiB, 4 * GiB},
		{"used up", map[string]string{
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "1073741824\n",
			"sys/fs/cgroup/memory.current": "1073741900\n",
		}, 1 * GiB, 1},
		{"version 1", map[string]string{
			"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/app\nnonsense\n",
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "2147483648\n",
			"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/app/memory.stat":           "inactive_file 1\ntotal_inactive_file 536870912\n",
		}, 2 * GiB, 3 * GiB / 2},
		{"version 1 in a container", map[string]string{
			"proc/self/cgroup":                  "4:memory:/docker/4711\n",
			"proc/self/mountinfo":               "33 25 0:28 /docker/4711 /cgroups/mem ro shared:9 - cgroup cgroup rw,memory\n",
			"cgroups/mem/memory.limit_in_bytes": "1073741824\n",
			"cgroups/mem/memory.usage_in_bytes": "536870912\n",
		}, 1 * GiB, 1 * GiB / 2},
		{"only the group's limit is known", map[string]string{
			"proc/meminfo":                 "",
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "1073741824\n",
			"sys/fs/cgroup/memory.current": "0\n",
		}, 1 * GiB, 1 * GiB},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := maps.Clone(machine)
			maps.Copy(all, test.files)
			root := files(all)
			total, free := memoryIn(root)
			require.Equal(t, test.total, total)
			require.Equal(t, test.free, free)
		})
	}
}
