package kerneltest

import (
	"context"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Rig is a queue under test. All that a test knows of its device goes through the
// queue; what it makes is freed at the test's end.
type Rig struct {
	testing.TB
	Q      kernels.Queue
	Ready  device.Event
	memory func(c kernels.Cache) device.Buffer // as in Backend
	ops    kernels.Backend
}

// Open opens a device by its name for the time of a test, which fails if it holds a
// buffer at its end.
func Open(t testing.TB, name string) device.Device {
	t.Helper()
	set := new(device.Set)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	d, err := set.Open(name)
	require.NoError(t, err)
	return d
}

// CPU opens a device of that many of the machine's cores (0: all).
func CPU(t testing.TB, threads int) device.Device {
	t.Helper()
	places, err := device.Resolve("cpu", threads)
	require.NoError(t, err)
	return Open(t, places[0].Info.Name)
}

// Portable opens the CPU with the portable kernels, the judge of all others.
func Portable(t testing.TB) device.Device { return portable{CPU(t, 1)} }

// portable is a CPU whose vectors go unused.
type portable struct{ device.Device }

func (p portable) Info() device.Info {
	info := p.Device.Info()
	info.Name, info.SIMD = "portable CPU", "portable"
	return info
}

// Try enqueues ops and returns their error.
func (r *Rig) Try(ops func(q kernels.Queue)) error {
	r.Helper()
	r.Q.Begin()
	ops(r.Q)
	r.Q.Record(r.Ready)
	r.Q.End()
	return r.Ready.Wait(context.Background())
}

// Run enqueues ops that must do.
func (r *Rig) Run(ops func(q kernels.Queue)) {
	r.Helper()
	require.NoError(r, r.Try(ops))
}

// Alloc returns a buffer.
func (r *Rig) Alloc(bytes int64) device.Buffer {
	r.Helper()
	b, err := r.Q.Device().Alloc(bytes)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, b.Free()) })
	return b
}

// Margin is how many NaNs lie on both sides of a tensor, about.
const Margin = 16

// Tensor returns a tensor in the middle of a buffer. What lies around it, and what it
// holds without data, is NaN.
func (r *Rig) Tensor(rows, cols int, data []float32) kernels.Tensor {
	r.Helper()
	return r.TensorAt(Margin, rows, cols, data)
}

// TensorAt returns a tensor at that many elements from the buffer's start, up to
// 2·Margin.
func (r *Rig) TensorAt(at, rows, cols int, data []float32) kernels.Tensor {
	r.Helper()
	all := nans(rows*cols + 2*Margin)
	copy(all[at:], data)
	t := kernels.Tensor{Buf: r.Alloc(int64(4 * len(all))), Off: int64(4 * at), Rows: rows, Cols: cols, Type: kernels.F32}
	r.Run(func(q kernels.Queue) { q.Upload(t.Buf, 0, BytesOf(all)) })
	return t
}

// Bytes returns a copy of a buffer's first n bytes.
func (r *Rig) Bytes(b device.Buffer, n int64) []byte {
	r.Helper()
	got := make([]byte, n)
	r.Run(func(q kernels.Queue) { q.Download(got, b, 0) })
	return got
}

// Cached returns a copy of a cache's memory.
func (r *Rig) Cached(c kernels.Cache) []byte {
	r.Helper()
	return r.Bytes(r.memory(c), c.Bytes())
}

// Read returns a copy of what a tensor holds, and fails where something was written
// beside it.
func (r *Rig) Read(t kernels.Tensor) []float32 {
	r.Helper()
	all := FloatsOf(r.Bytes(t.Buf, t.Buf.Size()))
	from, to := int(t.Off/4), int(t.Off/4)+t.Rows*t.Cols
	for i, v := range all {
		if i < from || i >= to {
			require.True(r, v != v, "element %d, beside the tensor", i)
		}
	}
	return all[from:to]
}

// Pack puts a matrix on the device.
func (r *Rig) Pack(m kernels.Matrix) kernels.Weight {
	r.Helper()
	w, err := r.Q.Pack(context.Background(), m)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, w.Free()) })
	return w
}

// Vector puts a row of F32 on the device.
func (r *Rig) Vector(data []float32) kernels.Weight {
	r.Helper()
	return r.Pack(kernels.Matrix{Name: "vector", Type: kernels.F32, Rows: 1, Cols: len(data), Data: BytesOf(data)})
}

// Cache makes a cache.
func (r *Rig) Cache(s kernels.CacheSpec) kernels.Cache {
	r.Helper()
	c, err := r.Q.NewCache(s)
	require.NoError(r, err)
	r.Cleanup(func() { require.NoError(r, c.Free()) })
	return c
}

// Rows puts a batch's header on the device.
func (r *Rig) Rows(h *kernels.Header) kernels.Rows {
	r.Helper()
	b := r.Alloc(kernels.HeaderBytes(len(h.Tokens), len(h.Outputs), len(h.Pages)))
	r.Run(func(q kernels.Queue) { q.Upload(b, 0, h.Encode()) })
	return kernels.Rows{Buf: b, N: len(h.Tokens), Outputs: len(h.Outputs), Pages: len(h.Pages)}
}

// BytesOf are the bytes of floats, the same memory.
func BytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

// FloatsOf are the floats in bytes, the same memory.
func FloatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
