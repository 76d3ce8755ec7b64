//go:build !linux && !darwin && !windows

package cpu

// memory says that the machine's memory isn't known.
func memory() (total, free int64) { return 0, 0 }
