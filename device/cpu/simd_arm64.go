//go:build arm64 && !noasm

package cpu

import "github.com/klauspost/cpuid/v2"

// simdLevels returns the SIMD levels that the CPU has, best first. Each has all
// that the next one needs.
func simdLevels() []string {
	levels := []string{portable}
	for _, l := range []struct {
		name  string
		needs cpuid.FeatureID
	}{{"neon", cpuid.ASIMD}, {"neon-dot", cpuid.ASIMDDP}, {"neon-i8mm", cpuid.I8MM}} {
		if !cpuid.CPU.Supports(l.needs) {
			break
		}
		levels = append([]string{l.name}, levels...)
	}
	return levels
}
