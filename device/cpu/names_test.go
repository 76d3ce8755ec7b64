package cpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

func TestNames(t *testing.T) {
	six := []int{0, 1, 2, 3, 4, 5}
	gaps := []int{0, 2, 3, 7}
	for _, test := range []struct {
		name    string
		cores   []int
		threads int
		want    string // the groups' names
	}{
		{"cpu", six, 0, "cpu:0-5"},
		{"cpu", six, 4, "cpu:0-3"},
		{"cpu", six, 6, "cpu:0-5"},
		{"cpu", gaps, 0, "cpu:0+2-3+7"},
		{"cpu", gaps, 2, "cpu:0+2"},
		{"cpu", []int{5}, 0, "cpu:5"},
		{"cpu:0-3", six, 0, "cpu:0-3"},
		{"cpu:0-3", six, 1, "cpu:0-3"},
		{"cpu:1", six, 0, "cpu:1"},
		{"cpu:0+2-3", gaps, 0, "cpu:0+2-3"},
		{"cpu:7+0", gaps, 0, "cpu:0+7"},
		{"cpu:2+3", gaps, 0, "cpu:2-3"},
		{"cpu:03-3", six, 0, "cpu:3"},
		{"cpu/1", six, 0, "cpu:0-5"},
		{"cpu/2", six, 0, "cpu:0-2 cpu:3-5"},
		{"cpu/4", six, 0, "cpu:0 cpu:1-2 cpu:3 cpu:4-5"},
		{"cpu/6", six, 0, "cpu:0 cpu:1 cpu:2 cpu:3 cpu:4 cpu:5"},
		{"cpu/2", gaps, 0, "cpu:0+2 cpu:3+7"},
		{"cpu/2", six, 4, "cpu:0-1 cpu:2-3"},
		{"cpu/5", []int{0, 1}, 0, "cpu:0 cpu:1 cpu:0 cpu:1 cpu:0"},
		{"cpu/3", six, 1, "cpu:0 cpu:0 cpu:0"},
	} {
		groups, err := parseName(test.name, test.cores, len(test.cores), test.threads)
		require.NoError(t, err, test.name)
		var names []string
		for _, g := range groups {
			names = append(names, nameOf(g))
		}
		require.Equal(t, test.want, strings.Join(names, " "), "%s of %v", test.name, test.cores)
	}
	groups, err := parseName("cpu/4096", six, 6, 0)
	require.NoError(t, err)
	require.Len(t, groups, 4096)
}

// A quota limits the names without numbers, and --threads; a core may still be named.
func TestNamesUnderAQuota(t *testing.T) {
	eight := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, test := range []struct {
		name           string
		quota, threads int
		want           string
	}{
		{"cpu", 2, 0, "cpu:0-1"},
		{"cpu", 2, 1, "cpu:0"},
		{"cpu/2", 3, 0, "cpu:0 cpu:1-2"},
		{"cpu/3", 1, 0, "cpu:0 cpu:0 cpu:0"},
		{"cpu", 100, 0, "cpu:0-7"},
		{"cpu:6-7", 2, 0, "cpu:6-7"},
	} {
		infos, err := newBackend(eight, test.quota).Resolve(test.name, test.threads)
		require.NoError(t, err, test.name)
		var names []string
		for _, i := range infos {
			names = append(names, i.Name)
		}
		require.Equal(t, test.want, strings.Join(names, " "), "%s of %d", test.name, test.quota)
	}
	_, err := newBackend(eight, 2).Resolve("cpu", 3)
	require.ErrorContains(t, err, "3 threads: the CPU quota of this process's control group is 2 of 8 cores")
	infos, err := newBackend(eight, 3).Discover()
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, infos[0].Cores)
}

func TestNamesThatCantBeUnderstood(t *testing.T) {
	for _, name := range []string{
		"cpu/0", "cpu/", "cpu/x", "cpu/-1", "cpu/+1", "cpu/1.5", "cpu/4097", "cpu/99999999999999999999999", "cpu/2/2",
		"cpu:", "cpu:x", "cpu:-1", "cpu:1-", "cpu:-", "cpu:0-1-2", "cpu:1-0", "cpu:0++1", "cpu:0+", "cpu:0+0", "cpu:0-2+1",
		"cpu:99999999999999999999999", "cpu: 1", "cpu0", "cpus", "cpu/2:0",
	} {
		_, err := parseName(name, []int{0, 1, 2}, 3, 0)
		var wrong *device.ListError
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, name, wrong.Entry)
	}
}

func TestCoresThatAreNotThere(t *testing.T) {
	cores := []int{0, 2, 3}
	for _, test := range []struct {
		name    string
		threads int
		want    string
	}{
		{"cpu:1", 0, "this process may not use core 1, only 0+2-3"},
		{"cpu:0-3", 0, "this process may not use core 1"},
		{"cpu:2-9", 0, "this process may not use core 4"},
		{"cpu:2-999999999999", 0, "this process may not use core 4"},
		{"cpu:9223372036854775807", 0, "this process may not use core 9223372036854775807"},
		{"cpu", 4, "4 threads: this process may use 3 cores"},
		{"cpu/2", 4, "4 threads: this process may use 3 cores"},
		{"cpu", -1, "-1 threads: this process may use 3 cores"},
	} {
		_, err := parseName(test.name, cores, len(cores), test.threads)
		require.ErrorContains(t, err, test.want)
		require.False(t, errors.As(err, new(*device.ListError)), test.name)
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"cpu", "cpu/3", "cpu:0-3", "cpu:0+2-3", "cpu:9-1", "cpu/999"} {
		f.Add(s, 0)
	}
	f.Fuzz(func(t *testing.T, name string, threads int) {
		cores := []int{0, 2, 3, 900}
		groups, err := parseName(name, cores, len(cores), threads)
		if err != nil {
			return
		}
		require.NotEmpty(t, groups)
		for _, g := range groups {
			require.NotEmpty(t, g)
			require.True(t, slices.IsSorted(g))
			same, err := parseName(nameOf(g), cores, len(cores), 0)
			require.NoError(t, err)
			require.Equal(t, [][]int{g}, same, "a group's name stands for the group")
		}
	})
}
