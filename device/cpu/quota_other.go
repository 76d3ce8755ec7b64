//go:build !linux

package cpu

import "math"

// quota returns how many cores' time the system grants the process: MaxInt, since
// only Linux's control groups limit it.
func quota() int { return math.MaxInt }
