package cpu

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

const canPin = true

// coreMask is a set of cores in the form of the kernel's affinity calls.
type coreMask = unix.CPUSetDynamic

// processMask is the set of cores that the process may use, read at its start. It is nil
// if the kernel doesn't tell.
var processMask = readProcessMask()

func readProcessMask() coreMask {
	// The call fails with EINVAL if the set is smaller than the kernel's own.
	for cores := 1024; cores <= 1<<20; cores *= 2 {
		m := unix.NewCPUSet(cores)
		switch err := unix.SchedGetaffinityDynamic(0, m); {
		case err == nil && m.Count() > 0:
			return m
		case !errors.Is(err, unix.EINVAL):
			return nil
		}
	}
	return nil
}

// processCores returns the numbers of the cores that the process may use, ascending.
func processCores() []int {
	var cores []int
	for core := range len(processMask) * 64 {
		if processMask.IsSet(core) {
			cores = append(cores, core)
		}
	}
	if cores == nil {
		for core := range runtime.NumCPU() {
			cores = append(cores, core)
		}
	}
	return cores
}

// maskOf returns the set of the given cores, which must be ascending.
func maskOf(cores ...int) coreMask {
	m := unix.NewCPUSet(max(64*len(processMask), cores[len(cores)-1]+1))
	for _, core := range cores {
		m.Set(core)
	}
	return m
}

// pin locks the calling goroutine to its thread, and the thread to the cores of m, until
// unpin. It reports whether it succeeded; if not, nothing is changed.
//
// The goroutine is locked first because the Go runtime never starts a thread from a locked
// one, so that no other thread inherits m.
func pin(m coreMask) bool {
	if processMask == nil {
		return false
	}
	runtime.LockOSThread()
	if unix.SchedSetaffinityDynamic(0, m) != nil {
		runtime.UnlockOSThread()
		return false
	}
	return true
}

// unpin undoes a pin that succeeded.
func unpin() {
	if unix.SchedSetaffinityDynamic(0, processMask) != nil {
		// The process's former cores are no longer available: allow every core that the
		// kernel grants.
		anywhere := unix.NewCPUSet(64 * len(processMask))
		anywhere.Fill()
		_ = unix.SchedSetaffinityDynamic(0, anywhere)
	}
	runtime.UnlockOSThread()
}
