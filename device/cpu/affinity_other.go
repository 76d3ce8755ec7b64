//go:build !linux

package cpu

import "runtime"

const canPin = false

type coreMask struct{}

// processCores returns the numbers from 0 to one less than the number of logical cores.
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
