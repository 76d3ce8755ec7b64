//go:build amd64 && !noasm

package cpu

import "github.com/klauspost/cpuid/v2"

// simdLevels returns the SIMD levels that the CPU supports, best first. A level requires all
// that the levels after it require, except that the AVX-512 levels don't require avx-vnni.
func simdLevels() []string {
	levels := []string{portable}
	for _, l := range []struct {
		name     string
		needs    []cpuid.FeatureID
		optional bool // the levels above it don't need it
	}{
		{name: "avx2", needs: []cpuid.FeatureID{cpuid.AVX2, cpuid.FMA3, cpuid.F16C}},
		{name: "avx-vnni", needs: []cpuid.FeatureID{cpuid.AVXVNNI}, optional: true},
		{name: "avx512", needs: []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL}},
		{name: "avx512-vnni", needs: []cpuid.FeatureID{cpuid.AVX512VNNI}},
		{name: "avx512-bf16", needs: []cpuid.FeatureID{cpuid.AVX512BF16}},
	} {
		switch {
		case cpuid.CPU.Supports(l.needs...):
			levels = append([]string{l.name}, levels...)
		case !l.optional:
			return levels
		}
	}
	return levels
}
