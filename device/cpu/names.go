package cpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leat-dev/leat/device"
)

// maxDevices is the largest N in "cpu/N".
const maxDevices = 4096

// parseName returns the groups of cores that a name stands for. cores are those that the
// process may use, ascending; a name without core numbers uses the first granted of them.
//
//	cpu          one group of these cores; at most threads of them if threads > 0
//	cpu/N        the same cores in N groups of nearly equal size; if N is more than the
//	             number of cores, group i has only core i modulo that number
//	cpu:0-3+6    exactly these cores; threads has no effect
//
// A name that can't be parsed is a *device.ListError. If there is no such core, or there
// are fewer cores than threads, the error is of another type.
func parseName(name string, cores []int, granted, threads int) ([][]int, error) {
	rest := strings.TrimPrefix(name, "cpu")
	if spec, ok := strings.CutPrefix(rest, ":"); ok {
		group, err := parseCores(name, spec, cores)
		return [][]int{group}, err
	}
	n := 1
	if spec, ok := strings.CutPrefix(rest, "/"); ok {
		var err error
		if n, err = number(spec); err != nil || n < 1 || n > maxDevices {
			return nil, &device.ListError{Entry: name, Reason: fmt.Sprintf("after cpu/ there must be the number of devices, 1 to %d", maxDevices)}
		}
	} else if rest != "" {
		return nil, &device.ListError{Entry: name, Reason: "a CPU device is cpu, cpu/2, cpu:1, cpu:0-3 or cpu:0+2-3"}
	}
	available := fmt.Sprintf("this process may use %d cores", len(cores))
	if granted < len(cores) {
		available = fmt.Sprintf("the CPU quota of this process's control group is %d of %d cores", granted, len(cores))
	}
	cores = cores[:granted]
	switch {
	case threads < 0 || threads > granted:
		return nil, fmt.Errorf("%d threads: %s", threads, available)
	case threads > 0:
		cores = cores[:threads]
	}
	return split(cores, n), nil
}

// split divides cores into n groups, as described at parseName.
func split(cores []int, n int) [][]int {
	groups := make([][]int, n)
	for i := range groups {
		if n <= len(cores) {
			groups[i] = slices.Clone(cores[i*len(cores)/n : (i+1)*len(cores)/n])
		} else {
			groups[i] = []int{cores[i%len(cores)]}
		}
	}
	return groups
}

// parseCores parses cores and ranges of cores joined by "+", all of which must be
// available, and returns the cores ascending.
func parseCores(name, spec string, available []int) ([]int, error) {
	var group []int
	for part := range strings.SplitSeq(spec, "+") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := number(first)
		hi := lo
		if err == nil && isRange {
			hi, err = number(last)
		}
		switch {
		case err != nil:
			return nil, &device.ListError{Entry: name, Reason: fmt.Sprintf("%q is neither a core's number nor a range such as 0-3", part)}
		case hi < lo:
			return nil, &device.ListError{Entry: name, Reason: fmt.Sprintf("the range %s runs backwards", part)}
		}
		// The loop ends at the first core that is not available, so that even a huge
		// range takes no longer than there are cores.
		for core := lo; core <= hi; core++ {
			if !slices.Contains(available, core) {
				return nil, fmt.Errorf("this process may not use core %d, only %s", core, formatCores(available))
			}
			if slices.Contains(group, core) {
				return nil, &device.ListError{Entry: name, Reason: fmt.Sprintf("core %d is named twice", core)}
			}
			group = append(group, core)
		}
	}
	slices.Sort(group)
	return group, nil
}

// number parses a decimal number without a sign.
func number(s string) (int, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(s)
}

// nameOf returns the name of a group of cores, which must be ascending: "cpu:0-1".
func nameOf(cores []int) string { return "cpu:" + formatCores(cores) }

// formatCores returns cores, which must be ascending, as parseCores reads them: "0-1+3".
func formatCores(cores []int) string {
	var b strings.Builder
	for i := 0; i < len(cores); {
		last := i
		for last+1 < len(cores) && cores[last+1] == cores[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strconv.Itoa(cores[i]))
		if last > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(cores[last]))
		}
		i = last + 1
	}
	return b.String()
}
