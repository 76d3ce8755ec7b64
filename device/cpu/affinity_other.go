//go:build !linux

package cpu

import "runtime"

const canPin = false

type coreMask struct{}

// processCores returns a number for each core of the system.
func processCores() []int {
	cores := make([]int, runtime.NumCPU())
	for i := range cores {
		cores[i] = i
	}
	return cores
}

func maskOf(...int) coreMask { return coreMask{} }

func pin(coreMask) bool { return false }

func unpin() {}
