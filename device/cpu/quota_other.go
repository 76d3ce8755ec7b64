//go:build !linux

package cpu

import "math"

// quota returns MaxInt, which means that there is no limit on the process's CPU time: only
// Linux has control groups.
func quota() int { return math.MaxInt }
