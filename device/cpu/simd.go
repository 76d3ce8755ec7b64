package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// SIMDVariable is the environment variable that chooses a lower SIMD level than
// the CPU's highest: avx512-vnni, avx512, avx-vnni, avx2 or portable; on arm64
// neon-i8mm, neon-dot, neon or portable.
const SIMDVariable = "LEAT_SIMD"

const portable = "portable"

// simd returns the level that kernels use.
func simd() (string, error) { return chooseSIMD(os.Getenv(SIMDVariable), simdLevels()) }

// chooseSIMD returns the level asked for, or the first and best of the levels
// there are where none is.
func chooseSIMD(asked string, levels []string) (string, error) {
	switch {
	case asked == "":
		return levels[0], nil
	case slices.Contains(levels, asked):
		return asked, nil
	}
	return "", fmt.Errorf("%s=%s: this program on this CPU has %s", SIMDVariable, asked, strings.Join(levels, ", "))
}
