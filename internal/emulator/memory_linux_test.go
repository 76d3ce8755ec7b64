//go:build amd64 || arm64

package emulator

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemoryIsLimited(t *testing.T) {
	g := start(t, Machine{Memory: "8MiB"}).open(0)
	const page = 2 << 20
	free := func() int {
		t.Helper()
		var free, total uint64
		g.must("cuMemGetInfo_v2", uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
		require.EqualValues(t, 4*page, total)
		return int(free)
	}
	var address uintptr
	alloc := func(bytes uintptr) int {
		return g.call("cuMemAlloc_v2", uintptr(unsafe.Pointer(&address)), bytes)
	}
	assert.Equal(t, 4*page, free())
	g.alloc(1)
	assert.Equal(t, 3*page, free(), "a small one takes a page")
	g.alloc(page / 2)
	assert.Equal(t, 3*page, free(), "that others share")
	g.alloc(page/2 + 1)
	assert.Equal(t, 2*page, free(), "half a page and more is one of its own")
	g.alloc(page / 2)
	assert.Equal(t, 2*page, free(), "small ones fill what that leaves over")

	assert.Equal(t, outOfMemory, alloc(2*page+1))
	assert.Equal(t, outOfMemory, alloc(math.MaxUint64))
	assert.Equal(t, invalidValue, alloc(0))
	require.Zero(t, alloc(page+1))
	assert.Zero(t, free())
	assert.Equal(t, outOfMemory, alloc(page/2+1))
	g.must("cuMemFree_v2", address)
	assert.Equal(t, 2*page, free())
}

func TestMemoryIsPoisoned(t *testing.T) {
	g := start(t, Machine{}).open(0)
	for _, v := range append(g.floats(g.alloc(64), 16), g.pinned(16)...) {
		require.EqualValues(t, poison, math.Float32bits(v))
	}
}

func TestFill(t *testing.T) {
	g := start(t, Machine{}).open(0)
	address := g.alloc(16)
	g.must("cuMemsetD32Async", address, 0x01020304, 3, g.stream)
	g.must("cuMemsetD8Async", address+10, 0xab, 5, g.stream)
	var words [4]uint32
	for i, v := range g.floats(address, 4) {
		words[i] = math.Float32bits(v)
	}
	assert.Equal(t, [4]uint32{0x01020304, 0x01020304, 0xabab0304, 0x7fababab}, words)
	assert.Equal(t, invalidValue, g.call("cuMemsetD32Async", address+2, 0, 1, g.stream))
}

// A copy outside of an allocation is refused when it is called, as drivers do.
func TestWrongCopies(t *testing.T) {
	g := start(t, Machine{}).open(0)
	address, numbers := g.alloc(64), make([]float32, 17)
	assert.Equal(t, invalidValue, g.upload(address, numbers, g.stream))
	g.reported(`cuMemcpyHtoDAsync of 68 bytes outside of an allocation: .*\(byte 0 of .* has 64 bytes$`)
	assert.Equal(t, invalidValue, g.download(numbers[:4], address+52, g.stream))
	g.reported(`cuMemcpyDtoHAsync of 16 bytes outside of an allocation: .*\(byte 52 of`)
	assert.Equal(t, invalidValue, g.call("cuMemcpyDtoDAsync_v2", address, address-16, 16, g.stream))
	g.reported(`cuMemcpyDtoDAsync of 16 bytes outside of an allocation: .*\(byte -16 of`)
	assert.Equal(t, invalidValue, g.call("cuMemsetD8Async", uintptr(unsafe.Pointer(&numbers[0])), 0, 4, g.stream))
	g.reported(`cuMemsetD8Async of 4 bytes at 0x\w+ \(no device address\), which was never allocated`)

	var freed uintptr
	g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&freed)), 64)
	g.must("cuMemFree_v2", freed)
	assert.Equal(t, invalidValue, g.upload(freed, numbers[:1], g.stream))
	g.reported(`cuMemcpyHtoDAsync of 4 bytes in freed memory`)
	assert.Equal(t, invalidValue, g.call("cuMemFree_v2", freed))
	g.reported(`cuMemFree of memory that is freed`)
	assert.Equal(t, invalidValue, g.call("cuMemFree_v2", address+16))
	g.reported(`cuMemFree of .*\(byte 16 of allocation .*, where no allocation begins`)
	assert.Equal(t, invalidValue, g.call("cuMemFreeHost", uintptr(unsafe.Pointer(&numbers[0]))))
	g.reported(`cuMemFreeHost of an address where no pinned memory begins`)

	pinned := g.pinned(4)
	assert.Zero(t, g.upload(address, unsafe.Slice(&pinned[0], 5), g.stream))
	g.reported(`cuMemcpyHtoDAsync of 20 bytes past the end of pinned memory: byte 0 of 16`)
}

func TestLeaks(t *testing.T) {
	r := start(t, Machine{})
	g := r.open(0)
	var address, host, event, stream, module uintptr
	g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&address)), 100)
	g.must("cuMemHostAlloc", uintptr(unsafe.Pointer(&host)), 200, 0)
	g.must("cuEventCreate", uintptr(unsafe.Pointer(&event)), 0)
	g.must("cuStreamCreate", uintptr(unsafe.Pointer(&stream)), 0)
	text := append([]byte(selftest), 0)
	g.must("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)

	var again uintptr
	g.must("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&again)), 0)
	assert.Equal(t, g.context, again)
	g.must("cuDevicePrimaryCtxRelease_v2", 0)
	assert.Empty(t, Reports(), "it is still retained")

	g.release()
	reports := Reports()
	assert.Len(t, reports, 5)
	for i, what := range []string{"a stream of GPU 0", "1 events of GPU 0", "1 modules of GPU 0", "an allocation of 100 bytes", "pinned memory of 200 bytes"} {
		assert.Contains(t, reports[i], what)
		assert.Contains(t, reports[i], "left when its context was released for the last time")
	}
	assert.Equal(t, invalidContext, r.call("cuDevicePrimaryCtxRelease_v2", 0))
}

// Memory is freed only when the host knows that all work on it is done.
func TestFreedTooEarly(t *testing.T) {
	tests := []struct {
		name string
		work func(g *gpu, memory uintptr)
	}{
		{"copy", func(g *gpu, memory uintptr) { require.Zero(g, g.upload(memory, []float32{1}, g.stream)) }},
		{"kernel", func(g *gpu, memory uintptr) {
			require.Zero(g, g.launch(g.stream, "leat_test_copy", 1, copyParams{memory, g.filled(64, 0), 64, 0}))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := start(t, Machine{}).open(0)
			var memory uintptr
			g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&memory)), 256)
			test.work(g, memory)
			event := g.event()
			g.must("cuEventRecord", event, g.stream)
			for g.call("cuEventQuery", event) == notReady {
			}
			g.must("cuMemFree_v2", memory)
			assert.Empty(t, Reports(), "the event told the host")

			g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&memory)), 256)
			test.work(g, memory)
			g.must("cuMemFree_v2", memory)
			g.sync(g.stream)
			reports := Reports()
			require.NotEmpty(t, reports)
			assert.Regexp(t, "the host has not waited until that is done|freed memory", reports[0], "the kernel may come later than the free")
		})
	}
}

func TestFreedWhileRunning(t *testing.T) {
	g := start(t, Machine{Fault: "slow:0@100ms"}).open(0)
	src := g.filled(64, 0)
	var memory uintptr
	g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&memory)), 256)
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{g.alloc(256), src, 64, 0}))
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{memory, src, 64, 0}))
	g.must("cuMemFree_v2", memory)
	assert.Equal(t, illegalAddress, g.sync(g.stream))
	g.reported(`leat_test_copy on GPU 0.*: write of freed memory`)
}

func TestPinnedSourceChanged(t *testing.T) {
	g := start(t, Machine{Fault: "slow:0@100ms"}).open(0)
	address, host := g.alloc(256), g.pinned(64)
	clear(host)
	require.Zero(t, g.upload(address, host, g.stream))
	require.Zero(t, g.sync(g.stream))
	host[5] = 1
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{g.alloc(256), address, 64, 0}))
	require.Zero(t, g.upload(address, host, g.stream))
	host[6] = 2
	require.Zero(t, g.sync(g.stream))
	g.reported(`cuMemcpyHtoDAsync of 256 bytes .*: the host changed the pinned source .* before the copy was done`)
}

func TestPinnedFreedTooEarly(t *testing.T) {
	g := start(t, Machine{Fault: "slow:0@100ms"}).open(0)
	address := g.filled(64, 0)
	var host uintptr
	g.must("cuMemHostAlloc", uintptr(unsafe.Pointer(&host)), 256, 1)
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, copyParams{g.alloc(256), address, 64, 0}))
	g.must("cuMemcpyDtoHAsync_v2", host, address, 256, g.stream)
	g.must("cuMemFreeHost", host)
	g.reported(`cuMemFreeHost of pinned memory .*cuMemcpyDtoHAsync of 256 bytes .* uses it`)
	assert.Equal(t, illegalAddress, g.sync(g.stream))
	g.reported(`uses freed memory`)
}
