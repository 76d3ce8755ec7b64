package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// SIMDVariable is the name of the environment variable that selects a SIMD level below the
// CPU's highest: avx512-bf16, avx512-vnni, avx512, avx-vnni, avx2 or portable; on arm64
// neon-i8mm, neon-dot, neon or portable.
const SIMDVariable = "LEAT_SIMD"

const portable = "portable"

// simd returns the SIMD level that the kernels use.
func simd() (string, error) { return chooseSIMD(os.Getenv(SIMDVariable), simdLevels()) }

// chooseSIMD returns the level asked for, which must be one of levels, or the first of
// levels, which is the best, if none is asked for.
func chooseSIMD(asked string, levels []string) (string, error) {
	switch {
	case asked == "":
		return levels[0], nil
	case slices.Contains(levels, asked):
		return asked, nil
	}
	return "", fmt.Errorf("%s=%s: this program supports only %s on this CPU", SIMDVariable, asked, strings.Join(levels, ", "))
}
