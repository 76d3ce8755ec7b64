//go:build amd64 || arm64

package emulator

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A slow kernel holds up its stream, not the host, and nothing behind it is done early.
func TestAsynchrony(t *testing.T) {
	g := start(t, Machine{Fault: "slow:0@200ms"}).open(0)
	src, dst, host, event := g.filled(64, 7), g.alloc(256), g.pinned(64), g.event()
	assert.Zero(t, g.call("cuEventQuery", event), "never recorded")
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{dst, src, 64, 0}))
	require.Zero(t, g.download(host, dst, g.stream))
	g.must("cuEventRecord", event, g.stream)
	assert.Equal(t, notReady, g.call("cuEventQuery", event))
	for _, v := range host {
		require.EqualValues(t, poison, math.Float32bits(v), "whoever reads too early finds poison")
	}
	g.must("cuEventSynchronize", event)
	assert.Zero(t, g.call("cuEventQuery", event))
	for i, v := range host {
		require.Equal(t, float32(7+i), v)
	}
}

// Pageable memory is copied at the call; a copy to it ends with the call.
func TestPageableMemory(t *testing.T) {
	g := start(t, Machine{Fault: "slow:0@50ms"}).open(0)
	address, numbers := g.filled(64, 0), []float32{1, 2, 3}
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{g.alloc(256), address, 64, 0}))
	require.Zero(t, g.upload(address, numbers, g.stream))
	clear(numbers)
	require.Zero(t, g.download(numbers, address, g.stream))
	assert.Equal(t, []float32{1, 2, 3}, numbers)
}

// A stream waits for what an event stood for when the wait was called.
func TestWait(t *testing.T) {
	g := start(t, Machine{GPUs: 2, Fault: "slow:0@50ms"}).open(0)
	src, event, middle := g.filled(64, 1), g.event(), g.alloc(256)
	other := g.rig.open(1)
	there, host := other.alloc(256), other.pinned(64)
	g.use()
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{middle, src, 64, 0}))
	g.must("cuEventRecord", event, g.stream)
	other.use()
	g.must("cuStreamWaitEvent", other.stream, event, 0)
	g.must("cuMemcpyPeerAsync", there, other.context, middle, g.context, 256, other.stream)
	require.Zero(t, other.download(host, there, other.stream))
	require.Zero(t, other.sync(other.stream))
	for i, v := range host {
		require.Equal(t, float32(1+i), v)
	}
	assert.Equal(t, invalidHandle, g.call("cuEventRecord", event, other.stream), "an event is recorded on its own GPU")
}

// ordered is what comes between two pieces of work that would race without it.
var ordered = []struct {
	name    string
	between func(g *gpu, first, second uintptr)
	races   bool
}{
	{"nothing", func(*gpu, uintptr, uintptr) {}, true},
	{"an event", func(g *gpu, first, second uintptr) {
		event := g.event()
		g.must("cuEventRecord", event, first)
		g.must("cuStreamWaitEvent", second, event, 0)
	}, false},
	{"an event of before", func(g *gpu, _, second uintptr) {
		event := g.event()
		g.must("cuStreamWaitEvent", second, event, 0)
	}, true},
	{"a stream between", func(g *gpu, first, second uintptr) {
		event, later, between := g.event(), g.event(), g.another()
		g.must("cuEventRecord", event, first)
		g.must("cuStreamWaitEvent", between, event, 0)
		g.must("cuEventRecord", later, between)
		g.must("cuStreamWaitEvent", second, later, 0)
	}, false},
	{"the host waits", func(g *gpu, first, _ uintptr) { g.must("cuStreamSynchronize", first) }, false},
	{"the host waits for an event", func(g *gpu, first, _ uintptr) {
		event := g.event()
		g.must("cuEventRecord", event, first)
		g.must("cuEventSynchronize", event)
	}, false},
	{"the host asks until an event is done", func(g *gpu, first, _ uintptr) {
		event := g.event()
		g.must("cuEventRecord", event, first)
		for g.call("cuEventQuery", event) == notReady {
		}
	}, false},
}

// Work of two streams on the same memory races unless something comes between, in
// whatever order the streams happen to run.
func TestRaces(t *testing.T) {
	type place struct{ a, b, c uintptr }
	copyKernel := func(g *gpu, stream, dst, src uintptr) {
		require.Zero(g, g.launch(stream, "leat_test_copy", 1, copyParams{dst, src, 64, 0}))
	}
	tests := []struct {
		name          string
		first, second func(g *gpu, stream uintptr, p place)
		harmless      bool
	}{
		{"read after write", func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.b, p.a) },
			func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.c, p.b) }, false},
		{"write after read", func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.c, p.b) },
			func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.b, p.a) }, false},
		{"write after write", func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.b, p.a) },
			func(g *gpu, s uintptr, p place) { g.must("cuMemsetD8Async", p.b, 0, 256, s) }, false},
		{"copy after kernel", func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.b, p.a) },
			func(g *gpu, s uintptr, p place) { g.must("cuMemcpyDtoDAsync_v2", p.c, p.b, 256, s) }, false},
		{"read after read", func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.b, p.a) },
			func(g *gpu, s uintptr, p place) { copyKernel(g, s, p.c, p.a) }, true},
		{"other bytes", func(g *gpu, s uintptr, p place) { g.must("cuMemsetD8Async", p.b, 1, 100, s) },
			func(g *gpu, s uintptr, p place) { g.must("cuMemsetD8Async", p.b+100, 2, 100, s) }, true},
		{"one byte", func(g *gpu, s uintptr, p place) { g.must("cuMemsetD8Async", p.b, 1, 101, s) },
			func(g *gpu, s uintptr, p place) { g.must("cuMemsetD8Async", p.b+100, 2, 100, s) }, false},
	}
	for _, test := range tests {
		for _, o := range ordered {
			t.Run(test.name+"/"+o.name, func(t *testing.T) {
				g := start(t, Machine{}).open(0)
				second := g.another()
				p := place{g.filled(64, 0), g.filled(64, 1), g.filled(64, 2)}
				test.first(g, g.stream, p)
				o.between(g, g.stream, second)
				test.second(g, second, p)
				require.Zero(t, g.sync(second))
				require.Zero(t, g.sync(g.stream))
				if !o.races || test.harmless {
					assert.Empty(t, Reports())
					return
				}
				g.reported(`^race: .* in stream \d+ of GPU 0 and .* in stream \d+ of GPU 0 both use .*byte \d+ of allocation .*no event or wait says which comes first$`)
			})
		}
	}
}

// Pinned memory through which one GPU hands on to another is watched too. That it
// changes before the second copy is no fault of the host.
func TestPinnedRace(t *testing.T) {
	for _, o := range ordered {
		t.Run(o.name, func(t *testing.T) {
			g := start(t, Machine{}).open(0)
			second := g.another()
			src, dst, host := g.filled(64, 3), g.filled(64, 0), g.pinned(64)
			require.Zero(t, g.download(host, src, g.stream))
			o.between(g, g.stream, second)
			require.Zero(t, g.upload(dst, host, second))
			require.Zero(t, g.sync(second))
			require.Zero(t, g.sync(g.stream))
			if o.races {
				g.reported(`^race: .*of 256 bytes of pinned memory`)
				return
			}
			assert.Empty(t, Reports())
			assert.Equal(t, float32(3), g.floats(dst, 1)[0])
		})
	}
}

// Long after, when histories were cut, a race is still found, and order still known.
func TestRaceAfterMuchWork(t *testing.T) {
	g := start(t, Machine{}).open(0)
	second, event := g.another(), g.event()
	const pieces = 500
	buffer := g.alloc(256 * pieces)
	for i := range uintptr(pieces) {
		g.must("cuMemsetD8Async", buffer+256*i, i, 200+i%50, g.stream)
	}
	g.must("cuEventRecord", event, g.stream)
	g.must("cuStreamWaitEvent", second, event, 0)
	g.must("cuMemsetD8Async", buffer, 1, 256*pieces, second)
	require.Zero(t, g.sync(second))
	assert.Empty(t, Reports())
	g.must("cuMemsetD8Async", buffer+256*100, 0, 1, g.stream)
	require.Zero(t, g.sync(g.stream))
	assert.Empty(t, Reports(), "the host had waited")
	g.must("cuMemsetD8Async", buffer+256*100, 0, 1, second)
	g.must("cuMemsetD8Async", buffer+256*100, 0, 1, g.stream)
	require.Zero(t, g.sync(g.stream))
	require.Zero(t, g.sync(second))
	g.reported(`^race: .*byte 25600 of allocation`)
}

func TestNoCurrentContext(t *testing.T) {
	r := bare(t, Machine{})
	var n uintptr
	assert.Equal(t, notInitialized, r.call("cuDeviceGetCount", uintptr(unsafe.Pointer(&n))))
	r.must("cuInit", 0)
	g := r.open(0)
	address := g.alloc(256)
	g.must("cuCtxSetCurrent", 0)
	g.must("cuCtxGetCurrent", uintptr(unsafe.Pointer(&n)))
	assert.Zero(t, n)
	for _, name := range []string{"cuMemAlloc_v2", "cuMemFree_v2", "cuStreamSynchronize", "cuEventQuery", "cuLaunchKernel"} {
		assert.Equal(t, invalidContext, g.call(name, address, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	}
	reports := Reports()
	require.Len(t, reports, 5)
	assert.Equal(t, "cuMemAlloc was called on a thread without a current context", reports[0])

	g.use()
	g.must("cuCtxGetCurrent", uintptr(unsafe.Pointer(&n)))
	assert.Equal(t, g.context, n)
	old := g.context
	g.release()
	assert.Equal(t, invalidContext, r.call("cuCtxSetCurrent", old))
}

func TestStaleHandles(t *testing.T) {
	g := start(t, Machine{}).open(0)
	for _, name := range []string{"cuStreamSynchronize", "cuStreamDestroy_v2", "cuEventQuery", "cuEventSynchronize", "cuEventDestroy_v2", "cuModuleUnload"} {
		assert.Equal(t, invalidHandle, g.call(name, 0), name)
		assert.Equal(t, invalidHandle, g.call(name, 0xdeadbeef), name)
	}
}

func TestReleasedContextStaysCurrent(t *testing.T) {
	r := start(t, Machine{})
	var context uintptr
	r.must("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&context)), 0)
	r.must("cuCtxSetCurrent", context)
	r.must("cuDevicePrimaryCtxRelease_v2", 0)
	assert.Equal(t, contextIsDestroyed, r.call("cuMemFree_v2", 0))
	r.reported("cuMemFree was called on a thread whose current context was released for the last time")
	r.must("cuCtxSetCurrent", 0)
}
