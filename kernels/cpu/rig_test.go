package cpu

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a queue under test, with what its tensors and weights hold.
type rig struct {
	testing.TB
	q     kernels.Queue
	ready device.Event
}

// newRig opens a device of that many cores (0: all of them). At its end the
// device complains of every buffer that nobody freed.
func newRig(t testing.TB, threads int) *rig {
	places, err := device.Resolve("cpu", threads)
	require.NoError(t, err)
	set := new(device.Set)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	return rigOn(t, d)
}

func rigOn(t testing.TB, d device.Device) *rig {
	ops, err := kernels.For(device.CPU)
	require.NoError(t, err)
	q, err := ops.NewQueue(d)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	ready, err := q.NewEvent()
	require.NoError(t, err)
	return &rig{t, q, ready}
}

// try enqueues ops and returns their error.
func (r *rig) try(ops func(q kernels.Queue)) error {
	r.Helper()
	r.q.Begin()
	defer r.q.End()
	ops(r.q)
	r.q.Record(r.ready)
	return r.ready.Wait(context.Background())
}

func (r *rig) run(ops func(q kernels.Queue)) {
	r.Helper()
	require.NoError(r, r.try(ops))
}

func (r *rig) alloc(bytes int64) device.Buffer {
	b, err := r.q.Device().Alloc(bytes)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, b.Free()) })
	return b
}

// tensor returns a tensor in the middle of a buffer. What lies around it, and
// what it holds without data, is NaN.
func (r *rig) tensor(rows, cols int, data []float32) kernels.Tensor {
	const margin = 16
	t := kernels.Tensor{Buf: r.alloc(int64(4 * (rows*cols + 2*margin))), Off: 4 * margin, Rows: rows, Cols: cols, Type: kernels.F32}
	all := float32s(t.Buf.Bytes())
	for i := range all {
		all[i] = float32(math.NaN())
	}
	copy(all[margin:], data)
	return t
}

// read returns a copy of what a tensor holds.
func read(t kernels.Tensor) []float32 {
	return append([]float32(nil), float32s(t.Buf.Bytes()[t.Off:])[:t.Rows*t.Cols]...)
}

// margins fails where an op wrote beside its tensor.
func (r *rig) margins(t kernels.Tensor) {
	r.Helper()
	all := float32s(t.Buf.Bytes())
	for i, v := range all {
		if i < int(t.Off/4) || i >= int(t.Off/4)+t.Rows*t.Cols {
			require.True(r, v != v, "element %d, beside the tensor", i)
		}
	}
}

func (r *rig) pack(m kernels.Matrix) kernels.Weight {
	w, err := r.q.Pack(context.Background(), m)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, w.Free()) })
	return w
}

func (r *rig) vector(data []float32) kernels.Weight {
	return r.pack(kernels.Matrix{Name: "vector", Type: kernels.F32, Rows: 1, Cols: len(data), Data: append([]byte(nil), bytesOf(data)...)})
}

func (r *rig) rows(h *kernels.Header) kernels.Rows {
	b := r.alloc(kernels.HeaderBytes(len(h.Tokens), len(h.Outputs), len(h.Pages)))
	copy(b.Bytes(), h.Encode())
	return kernels.Rows{Buf: b, N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages)}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 20)) }

func normals(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// matrix returns a random matrix as a file has it, and its numbers.
func matrix(rng *rand.Rand, typ kernels.Type, rows, cols int) (kernels.Matrix, []float64) {
	m := kernels.Matrix{Name: "w", Type: typ, Rows: rows, Cols: cols}
	var exact []float64
	half := func(v float64) float64 {
		h := kernels.Float16bits(float32(v))
		m.Data = binary.LittleEndian.AppendUint16(m.Data, h)
		return float64(kernels.Float16frombits(h))
	}
	for len(exact) < rows*cols {
		v := rng.NormFloat64()
		switch typ {
		case kernels.F32:
			m.Data = binary.LittleEndian.AppendUint32(m.Data, math.Float32bits(float32(v)))
			exact = append(exact, float64(float32(v)))
		case kernels.F16:
			exact = append(exact, half(v))
		case kernels.BF16:
			b := math.Float32bits(float32(v)) >> 16
			m.Data = binary.LittleEndian.AppendUint16(m.Data, uint16(b))
			exact = append(exact, float64(math.Float32frombits(b<<16)))
		case kernels.Q8_0:
			d := half(v / 127)
			for range 32 {
				q := rng.IntN(255) - 127
				m.Data = append(m.Data, byte(int8(q)))
				exact = append(exact, d*float64(q))
			}
		case kernels.Q4_0:
			d := half(v / 8)
			var high []float64
			for range 16 {
				b := byte(rng.IntN(256))
				m.Data = append(m.Data, b)
				exact = append(exact, d*float64(int(b&15)-8))
				high = append(high, d*float64(int(b>>4)-8))
			}
			exact = append(exact, high...)
		case kernels.Q4_K:
			d, dmin := half(v/500), half(rng.NormFloat64()/500)
			packed := randomBytes(rng, 12+128)
			s, q := packed[:12], packed[12:]
			m.Data = append(m.Data, packed...)
			for i := range 256 {
				j := i / 32
				scale, minimum := s[j%4]&63, s[j%4+4]&63
				if j >= 4 {
					scale, minimum = s[j+4]&15|s[j-4]>>6<<4, s[j+4]>>4|s[j]>>6<<4
				}
				nibble := q[j/2*32+i%32] >> (j % 2 * 4) & 15
				exact = append(exact, d*float64(scale)*float64(nibble)-dmin*float64(minimum))
			}
		case kernels.Q6_K:
			packed := randomBytes(rng, 128+64+16)
			m.Data = append(m.Data, packed...)
			d := half(v / 2000)
			for i := range 256 {
				h, r := i/128, i%128
				low := packed[h*64+r%64] >> (r / 64 * 4) & 15
				high := packed[128+h*32+r%32] >> (r / 32 * 2) & 3
				scale := int8(packed[192+i/16])
				exact = append(exact, d*float64(scale)*float64(int(low|high<<4)-32))
			}
		}
	}
	return m, exact
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// sameBits compares floats by their bits, NaNs of any payload being equal.
func sameBits(t testing.TB, want, got []float32, what string, v ...any) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) && (want[i] == want[i] || got[i] == got[i]) {
			require.Failf(t, "bits differ", what+": element %d is %v, it must be %v", append(v, i, got[i], want[i])...)
		}
	}
}

// oneAndAll returns rigs on one core and on all cores.
func oneAndAll(t testing.TB) [2]*rig {
	r := [2]*rig{newRig(t, 1), newRig(t, 0)}
	if len(r[1].q.Device().Info().Cores) == 1 {
		t.Log("this machine has one core: both devices are the same size")
	}
	return r
}

var allTypes = kernels.WeightTypes()
