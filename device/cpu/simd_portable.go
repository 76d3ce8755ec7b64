//go:build (!amd64 && !arm64) || noasm

package cpu

// simdLevels returns the SIMD levels that this build has kernels for.
func simdLevels() []string { return []string{portable} }
