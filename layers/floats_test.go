package layers_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
)

func TestBytesAndFloats(t *testing.T) {
	v := []float32{1, -2.5, float32(math.Inf(1)), math.SmallestNonzeroFloat32}
	b := layers.Bytes(v)
	assert.Equal(t, []byte{0, 0, 128, 63, 0, 0, 32, 192, 0, 0, 128, 127, 1, 0, 0, 0}, b)
	assert.Equal(t, len(b), cap(b))
	back, err := layers.Floats(b)
	require.NoError(t, err)
	assert.Equal(t, v, back)
	assert.Equal(t, len(back), cap(back))

	// Bytes from anywhere in a file.
	shifted := append(make([]byte, 1, 32), b...)
	for at := range 4 {
		copy(shifted[at:at+16:32], b)
		got, err := layers.Floats(shifted[at : at+16 : 32])
		require.NoError(t, err)
		assert.Equal(t, v, got)
		assert.Equal(t, len(got), cap(got))
		copy(shifted[1:], b)
	}

	assert.Empty(t, layers.Bytes(nil))
	none, err := layers.Floats(nil)
	assert.NoError(t, err)
	assert.Empty(t, none)
	for n := 1; n < 4; n++ {
		_, err = layers.Floats(b[:4+n])
		assert.ErrorContains(t, err, "are not a whole number of float32s")
	}
}

func TestMatrix(t *testing.T) {
	m, err := layers.Matrix("w", 2, 3, []float32{1, 2, 3, 4, 5, 6})
	require.NoError(t, err)
	assert.Equal(t, kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 2, Cols: 3, Data: kerneltest.BytesOf([]float32{1, 2, 3, 4, 5, 6})}, m)
	_, err = layers.Matrix("w", 2, 3, make([]float32, 7))
	assert.ErrorContains(t, err, "w: 7 values for a matrix of shape [2, 3]: it has 6")
}

func TestView(t *testing.T) {
	r := kerneltest.Backend{}.On(t, kerneltest.CPU(t, 1))
	x := r.Tensor(2, 3, []float32{1, 2, 3, 4, 5, 6})
	v, err := layers.View(x)
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2, 3, 4, 5, 6}, v)
	assert.Equal(t, 6, cap(v))
	assert.Zero(t, testing.AllocsPerRun(20, func() { _, _ = layers.View(x) }))
	v[5] = 7
	assert.Equal(t, []float32{1, 2, 3, 4, 5, 7}, r.Read(x))

	for _, none := range []kernels.Tensor{x.First(0), {Type: kernels.F32}, {Type: kernels.F32, Rows: 9}} {
		v, err = layers.View(none)
		assert.NoError(t, err)
		assert.Empty(t, v)
	}
	gone, err := r.Q.Device().Alloc(64)
	require.NoError(t, err)
	require.NoError(t, gone.Free())
	with := func(change func(x *kernels.Tensor)) kernels.Tensor { y := x; change(&y); return y }
	for want, y := range map[string]kernels.Tensor{
		"a tensor of I32":                          with(func(x *kernels.Tensor) { x.Type = kernels.I32 }),
		"a tensor of shape [-1, 3]":                with(func(x *kernels.Tensor) { x.Rows = -1 }),
		"a tensor of shape [4611686018427387904, ": with(func(x *kernels.Tensor) { x.Rows, x.Cols = 1<<62, 1<<62 }),
		"of shape [2, 3] without memory":           with(func(x *kernels.Tensor) { x.Buf = nil }),
		"that has been freed":                      with(func(x *kernels.Tensor) { x.Buf = gone }),
		"a tensor of 24 bytes at offset -4":        with(func(x *kernels.Tensor) { x.Off = -4 }),
		"a tensor of 24 bytes at offset 140":       with(func(x *kernels.Tensor) { x.Off = 140 }),
		"a tensor of 24 bytes at offset 92233720":  with(func(x *kernels.Tensor) { x.Off = math.MaxInt64 }),
		"which is not a multiple of 4 bytes":       with(func(x *kernels.Tensor) { x.Off = 66 }),
	} {
		_, err := layers.View(y)
		assert.ErrorContains(t, err, want)
	}
}

func TestViewOfAGPU(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	r := kerneltest.Backend{}.On(t, kerneltest.Open(t, "cuda:0"))
	_, err := layers.View(r.Tensor(2, 3, nil))
	assert.ErrorContains(t, err, "the host can't reach the memory of cuda:0: use the ops of its queue, or place the layer on the CPU")
}
