package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// requirePacked compares a weight's memory with what its matrix is packed to.
func requirePacked(t *testing.T, r *kerneltest.Rig, m kernels.Matrix, w kernels.Weight) {
	t.Helper()
	want := packAll(t, m)
	require.GreaterOrEqual(t, w.Bytes(), int64(len(want)))
	got := r.Bytes(w.(*weight).buf, int64(len(want)))
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "bytes differ", "%v [%d, %d] at %d", m.Type, m.Rows, m.Cols, i)
		}
	}
}

func TestWeightsLieInPanels(t *testing.T) {
	r := gpu.Rig(t)
	for _, typ := range weightTypes {
		elems, _ := typ.Block()
		for _, c := range []struct{ rows, cols int }{{1, 32}, {1, 96}, {2, 32}, {16, 64}, {33, 320}, {100, 512}} {
			m := kerneltest.Matrix(kerneltest.NewRand(5), typ, c.rows, ceil(c.cols, elems)*elems)
			requirePacked(t, r, m, r.Pack(m))
		}
	}
}

// Weights of several pieces arrive whole, one after another through the same
// memory.
func TestPackInPieces(t *testing.T) {
	r := gpu.Rig(t)
	for _, c := range []struct {
		typ        kernels.Type
		rows, cols int
	}{{kernels.F32, 100, 32000}, {kernels.Q8_0, 1000, 20000 / 32 * 32}, {kernels.F16, 1, 3 << 20}} {
		m := kernels.Matrix{Name: "w", Type: c.typ, Rows: c.rows, Cols: c.cols}
		row, err := c.typ.RowBytes(c.cols)
		require.NoError(t, err)
		m.Data = make([]byte, row*int64(c.rows))
		rng := kerneltest.NewRand(62)
		for i := range m.Data {
			m.Data[i] = byte(rng.Uint32())
		}
		w, err := r.Q.Pack(t.Context(), m)
		require.NoError(t, err)
		require.Greater(t, w.Bytes(), int64(2*pieceBytes))
		requirePacked(t, r, m, w)
		require.NoError(t, w.Free())
	}
}
