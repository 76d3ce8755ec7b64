//go:build amd64 && !noasm

package cpu

import "github.com/klauspost/cpuid/v2"

// simdLevels returns the SIMD levels that the CPU supports, best first. A CPU that supports
// a level supports all that follow it.
func simdLevels() []string {
	levels := []string{portable}
	for _, l := range []struct {
		name  string
		needs []cpuid.FeatureID
	}{
		{"avx2", []cpuid.FeatureID{cpuid.AVX2, cpuid.FMA3, cpuid.F16C}},
		{"avx512", []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL}},
		{"avx512-vnni", []cpuid.FeatureID{cpuid.AVX512VNNI}},
	} {
		if !cpuid.CPU.Supports(l.needs...) {
			break
		}
		levels = append([]string{l.name}, levels...)
	}
	return levels
}
