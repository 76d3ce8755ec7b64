package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// How far the GPU's logits may be from the CPU's, as ‖a−b‖/‖b‖. Both round differently,
// to 24 bits. Where activations are quantized, that now and then makes one of them a
// step of 1/127 larger, and a model of random weights only makes such a difference
// larger from block to block. The CPU's own kernels, at two SIMD levels, are apart by
// 1.2e-6 with 1.1 billion parameters in F16, and by 3.1e-2 in Q8_0.
const (
	floatBound   = 1e-4
	integerBound = 0.15
)

// logits are those of every token, with a cache in float32.
func (c *check) logits(ctx context.Context, path string, tokens []int32, args ...string) ([]float32, error) {
	ids := make([]string, len(tokens))
	for i, t := range tokens {
		ids[i] = fmt.Sprint(t)
	}
	file := filepath.Join(c.dir, "logits.f32")
	args = append([]string{"logits", "-m", path, "-o", file, "--kv", "f32", "--tokens", strings.Join(ids, ",")}, args...)
	if _, err := c.leat(ctx, args...); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file); err != nil {
		return nil, err
	}
	all := make([]float32, len(data)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	if len(all) == 0 || len(all)%len(tokens) != 0 {
		return nil, fmt.Errorf("leat logits wrote %d bytes for %d tokens", len(data), len(tokens))
	}
	return all, nil
}

// distance is ‖a−b‖/‖b‖, NaN where one has no numbers, or another length.
func distance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var off, size float64
	for i := range b {
		d := float64(a[i]) - float64(b[i])
		off += d * d
		size += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(off / size)
}
