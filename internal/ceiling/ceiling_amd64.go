//go:build amd64 && !noasm

package ceiling

import (
	"math"

	"github.com/klauspost/cpuid/v2"
)

//go:generate go run -C ../panel/_gen . -kernels ceiling -pkg ceiling -out ../../ceiling/rates_amd64.s -stubs ../../ceiling/rates_amd64.go

// loops returns the loops that this machine can run.
func loops() []loop {
	var have []loop
	for _, l := range []struct {
		loop
		needs []cpuid.FeatureID
	}{
		{loop{FMA, "float32 multiply-adds, 512 bits", 12 * 16, math.Float32bits(12), fmaAVX512}, []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512VL}},
		{loop{FMA256, "float32 multiply-adds, 256 bits", 12 * 8, math.Float32bits(12), fmaAVX2}, []cpuid.FeatureID{cpuid.AVX2, cpuid.FMA3}},
		{loop{Bytes, "int8 multiply-adds, VNNI, 512 bits", 16 * 64, 16 * 4, dotBytesVNNI}, []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512VL, cpuid.AVX512VNNI}},
		{loop{BytesAVX2, "int8 multiply-adds, sign, maddubs, madd, 256 bits", 8 * 32, 8 * 4, dotBytesAVX2}, []cpuid.FeatureID{cpuid.AVX2}},
		{loop{BF16, "BF16 multiply-adds, vdpbf16ps, 512 bits", 16 * 32, math.Float32bits(32), dotBF16}, []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512VL, cpuid.AVX512BF16}},
	} {
		if cpuid.CPU.Supports(l.needs...) {
			have = append(have, l.loop)
		}
	}
	return have
}

func read(p []byte) uint32 {
	if !cpuid.CPU.Supports(cpuid.AVX2) {
		return readWords(p)
	}
	return readAVX2(p)
}
