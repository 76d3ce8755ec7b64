package gpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// fileRow puts a row together again, by the picture in source/params.h.
func fileRow(t *testing.T, m kernels.Matrix, packed []byte, row int) (data []byte) {
	chunks := len(packed) / ((m.Rows + 31) / 32) / 512
	at := 0
	next := func() []byte {
		c := packed[((row/32*chunks+at)*32+row%32)*16:][:16]
		at++
		return c
	}
	for from := 0; from < m.Cols; from += 256 {
		n := min(256, m.Cols-from)
		switch m.Type {
		case kernels.F32, kernels.F16, kernels.BF16:
			_, size := m.Type.Block()
			var all []byte
			for len(all) < n*size {
				all = append(all, next()...)
			}
			for _, b := range all[n*size:] {
				require.Zero(t, b, "behind a row's last element")
			}
			data = append(data, all[:n*size]...)
		case kernels.Q8_0, kernels.Q4_0:
			scales := next()
			for b := range 8 {
				if b >= n/32 {
					require.Equal(t, []byte{0, 0}, scales[2*b:][:2], "the scale of a block that isn't there")
					continue
				}
				data = append(append(data, scales[2*b:][:2]...), next()...)
				if m.Type == kernels.Q8_0 {
					data = append(data, next()...)
				}
			}
		case kernels.Q4_K:
			for range 9 {
				data = append(data, next()...)
			}
		case kernels.Q6_K:
			for range 13 {
				data = append(data, next()...)
			}
			d := next()
			require.Equal(t, make([]byte, 14), d[2:], "behind d")
			data = append(data, d[:2]...)
		}
	}
	require.Equal(t, chunks, at)
	return data
}

func TestRepackLaysRowsInPanels(t *testing.T) {
	rng := kerneltest.NewRand(60)
	for _, typ := range weightTypes {
		elems, _ := typ.Block()
		for _, rows := range []int{1, 2, 31, 32, 33, 70} {
			for _, cols := range []int{1, 5, 96, 256, 257, 288, 500, 512, 1120} {
				cols := (cols + elems - 1) / elems * elems
				if isVector(typ, rows) {
					continue
				}
				m := kerneltest.Matrix(rng, typ, rows, cols)
				packed := packAll(t, m)
				var file []byte
				for row := range rows {
					file = append(file, fileRow(t, m, packed, row)...)
				}
				require.Equal(t, m.Data, file, "%v [%d, %d]", typ, rows, cols)
				chunks := len(packed) / ((rows + 31) / 32) / 512
				for row := rows; row%32 != 0; row++ {
					for c := range chunks {
						require.Equal(t, make([]byte, 16), packed[((row/32*chunks+c)*32+row%32)*16:][:16], "row %d of %d", row, rows)
					}
				}
			}
		}
	}
}

// packAll packs a matrix a segment at a time, over memory that isn't zeros.
func packAll(t *testing.T, m kernels.Matrix) []byte {
	l, err := layoutOf(m.Type, m.Rows, m.Cols)
	require.NoError(t, err)
	size, err := l.bytes()
	require.NoError(t, err)
	packed := make([]byte, size)
	for i := range packed {
		packed[i] = 0xee
	}
	end := int64(0)
	for u := range int64(l.panels) * int64(l.segments()) {
		at, n := l.unit(u)
		require.Equal(t, end, at, "segments follow each other")
		l.repack(packed[at:][:n], &m, u)
		end += int64(n)
	}
	require.Equal(t, size, end)
	return packed
}

func TestRepackWidensVectors(t *testing.T) {
	for _, typ := range weightTypes[:3] {
		for _, cols := range []int{1, 4, 255, 256, 600} {
			m := kerneltest.Matrix(kerneltest.NewRand(61), typ, 1, cols)
			packed := kerneltest.FloatsOf(packAll(t, m))
			require.Len(t, packed, (cols+3)/4*4)
			want := make([]float32, len(packed))
			for i, v := range kerneltest.Exact(m) {
				want[i] = float32(v)
			}
			require.Equal(t, want, packed)
		}
	}
}

func TestWeightBytes(t *testing.T) {
	for _, c := range []struct {
		typ        kernels.Type
		rows, cols int
		want       int64
	}{
		{kernels.F32, 1, 80, 320},
		{kernels.BF16, 1, 81, 336},
		{kernels.F32, 2, 80, 32 * 320},
		{kernels.F16, 33, 80, 2 * 32 * 160},
		{kernels.Q8_0, 32, 512, 32 * 2 * (16 + 256)},
		{kernels.Q8_0, 1, 288, 32 * (16 + 256 + 16 + 32)},
		{kernels.Q4_0, 32, 288, 32 * (16 + 128 + 16 + 16)},
		{kernels.Q4_K, 32, 512, 32 * 2 * 144},
		{kernels.Q6_K, 32, 512, 32 * 2 * 224},
	} {
		got, err := backend{}.WeightBytes(c.typ, c.rows, c.cols)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v [%d, %d]", c.typ, c.rows, c.cols)
	}
	for _, c := range []struct {
		typ        kernels.Type
		rows, cols int
		wants      string
	}{
		{kernels.F32, 0, 64, "[0, 64]"},
		{kernels.F32, 64, -1, "[64, -1]"},
		{kernels.I32, 4, 32, "I32"},
		{kernels.Type(77), 4, 32, "type 77"},
		{kernels.Q8_0, 4, 33, "33"},
		{kernels.Q6_K, 4, 32, "32"},
		{kernels.F16, 1, math.MaxInt, "larger than a kernel counts"},
		{kernels.F32, math.MaxInt, 2, "larger than a kernel counts"},
		{kernels.F32, math.MaxInt, math.MaxInt, "larger than a kernel counts"},
		{kernels.F32, math.MaxInt32, math.MaxInt32 - 300, "more than memory can hold"},
	} {
		_, err := backend{}.WeightBytes(c.typ, c.rows, c.cols)
		require.ErrorContains(t, err, c.wants, fmt.Sprint(c))
	}
}

// Keys and values are filled up to whole chunks of 16 bytes.
func TestCacheOfOddHeads(t *testing.T) {
	said, err := backend{}.CacheBytes(kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 9, Pages: 1})
	require.NoError(t, err)
	require.EqualValues(t, 32*2*32, said)
}
