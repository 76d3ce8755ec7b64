package cpu

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

const canPin = true

// coreMask is a set of cores as the kernel takes it.
type coreMask = unix.CPUSetDynamic

// processMask is the cores that the process was started on; nil where the
// kernel wouldn't say.
var processMask = readProcessMask()

func readProcessMask() coreMask {
	// The kernel refuses a set smaller than its own.
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

// processCores returns the cores that the process may use, ascending.
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

// maskOf returns the set of some cores.
func maskOf(cores ...int) coreMask {
	m := unix.NewCPUSet(max(64*len(processMask), cores[len(cores)-1]+1))
	for _, core := range cores {
		m.Set(core)
	}
	return m
}

// pin locks the calling goroutine to its thread and the thread to m, until
// unpin. False: it wasn't possible, and nothing is pinned.
//
// The order matters: the Go runtime never starts a thread from a locked one, so
// no other thread inherits m.
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
		// The process's own cores are gone: any that the kernel grants will do.
		anywhere := unix.NewCPUSet(64 * len(processMask))
		anywhere.Fill()
		_ = unix.SchedSetaffinityDynamic(0, anywhere)
	}
	runtime.UnlockOSThread()
}
