package gpu

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/device/cpu"
	_ "github.com/leat-dev/leat/device/cuda"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/cpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a queue under test, of a GPU or of the CPU that judges it. All that a
// test knows of it goes through the queue.
type rig struct {
	testing.TB
	q     kernels.Queue
	ready device.Event
}

// hardware says that the tests run on a machine's own GPU, as make gpu-check does.
var hardware = os.Getenv("LEAT_GPU_CHECK") == "1"

// onGPU is a rig on a GPU: an emulated one, whose own findings fail the test, or
// the machine's. What a device still holds at its end fails the test too.
func onGPU(t testing.TB) *rig {
	if !hardware {
		emulator.Use(t, emulator.Machine{GPUs: 1})
	}
	return rigOn(t, open(t, "cuda:0"))
}

// machine makes the emulated GPUs that a test needs.
func machine(t testing.TB, m emulator.Machine) {
	if hardware {
		t.Skip("needs emulated GPUs: LEAT_GPU_CHECK asks for the machine's own")
	}
	emulator.Use(t, m)
}

// twin is a rig on the CPU's portable kernels.
func twin(t testing.TB) *rig {
	places, err := device.Resolve("cpu", 1)
	require.NoError(t, err)
	return rigOn(t, portable{open(t, places[0].Info.Name)})
}

// portable is a CPU whose vectors go unused.
type portable struct{ device.Device }

func (p portable) Info() device.Info {
	info := p.Device.Info()
	info.SIMD = "portable"
	return info
}

func open(t testing.TB, name string) device.Device {
	set := new(device.Set)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	d, err := set.Open(name)
	require.NoError(t, err)
	return d
}

func rigOn(t testing.TB, d device.Device) *rig {
	ops, err := kernels.For(d.Info().Kind)
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
	ops(r.q)
	r.q.Record(r.ready)
	r.q.End()
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

// margin is how many NaNs lie on both sides of a tensor.
const margin = 16

var nan = float32(math.NaN())

// tensor returns a tensor in the middle of a buffer. What lies around it, and
// what it holds without data, is NaN.
func (r *rig) tensor(rows, cols int, data []float32) kernels.Tensor {
	return r.tensorAt(margin, rows, cols, data)
}

func (r *rig) tensorAt(at, rows, cols int, data []float32) kernels.Tensor {
	all := make([]float32, rows*cols+2*margin)
	for i := range all {
		all[i] = nan
	}
	copy(all[at:], data)
	t := kernels.Tensor{Buf: r.alloc(int64(4 * len(all))), Off: int64(4 * at), Rows: rows, Cols: cols, Type: kernels.F32}
	r.run(func(q kernels.Queue) { q.Upload(t.Buf, 0, bytesOf(all)) })
	return t
}

// bytes returns a copy of a buffer's first n bytes.
func (r *rig) bytes(b device.Buffer, n int64) []byte {
	r.Helper()
	got := make([]byte, n)
	r.run(func(q kernels.Queue) { q.Download(got, b, 0) })
	return got
}

// read returns a copy of what a tensor holds, and fails where something was
// written beside it.
func (r *rig) read(t kernels.Tensor) []float32 {
	r.Helper()
	all := floatsOf(r.bytes(t.Buf, t.Buf.Size()))
	from, to := int(t.Off/4), int(t.Off/4)+t.Rows*t.Cols
	for i, v := range all {
		if i < from || i >= to {
			require.True(r, v != v, "element %d, beside the tensor", i)
		}
	}
	return all[from:to]
}

func (r *rig) pack(m kernels.Matrix) kernels.Weight {
	r.Helper()
	w, err := r.q.Pack(context.Background(), m)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, w.Free()) })
	return w
}

func (r *rig) vector(data []float32) kernels.Weight {
	r.Helper()
	return r.pack(kernels.Matrix{Name: "vector", Type: kernels.F32, Rows: 1, Cols: len(data), Data: bytesOf(data)})
}

func (r *rig) rows(h *kernels.Header) kernels.Rows {
	b := r.alloc(max(4, kernels.HeaderBytes(len(h.Tokens), len(h.Outputs), len(h.Pages))))
	r.run(func(q kernels.Queue) { q.Upload(b, 0, h.Encode()) })
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

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
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
