//go:build amd64 || arm64

package emulator

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallFaults(t *testing.T) {
	tests := []struct {
		fault string
		want  []int // of allocations on GPU 0, 1, 0, 1, 0, 1
	}{
		{"cuMemAlloc:2", []int{0, outOfMemory, 0, 0, 0, 0}},
		{"cuMemAlloc:4+", []int{0, 0, 0, outOfMemory, outOfMemory, outOfMemory}},
		{"cuMemAlloc:2@1", []int{0, 0, 0, outOfMemory, 0, 0}},
		{"cuMemAlloc:2+@0", []int{0, 0, outOfMemory, 0, outOfMemory, 0}},
		{"cuMemAlloc:1@1=46,cuMemAlloc:6=304", []int{0, 46, 0, 0, 0, 304}},
		{"cuMemAlloc:2=719", []int{0, launchFailed, 0, launchFailed, 0, launchFailed}},
		{"cuMemHostAlloc:1", []int{0, 0, 0, 0, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			r := start(t, Machine{GPUs: 2, Fault: test.fault})
			gpus := []*gpu{r.open(0), r.open(1)}
			for i, want := range test.want {
				g := gpus[i%2]
				g.use()
				var address uintptr
				require.Equal(t, want, g.call("cuMemAlloc_v2", uintptr(unsafe.Pointer(&address)), 64), "call %d", i)
				if want == 0 {
					g.owned = append(g.owned, func() { g.call("cuMemFree_v2", address) })
				}
			}
		})
	}
}

func TestInitFaults(t *testing.T) {
	assert.Equal(t, noDevice, bare(t, Machine{Fault: "cuInit:1"}).call("cuInit", 0))
	assert.Equal(t, 999, bare(t, Machine{Fault: "cuInit:1=999"}).call("cuInit", 0))
	assert.Equal(t, noDevice, bare(t, Machine{GPUs: -1}).call("cuInit", 0))

	r := start(t, Machine{GPUs: 2, Fault: "busy:0", Driver: 12040})
	var context uintptr
	var version int32
	assert.Equal(t, deviceUnavailable, r.call("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&context)), 0))
	r.open(1)
	r.must("cuDriverGetVersion", uintptr(unsafe.Pointer(&version)))
	assert.EqualValues(t, 12040, version)
}

// What fails to free has freed all the same: the context is of no use any more, and
// what is left of it nobody's fault.
func TestFreeFails(t *testing.T) {
	g := start(t, Machine{Fault: "cuMemFree:1"}).open(0)
	address := g.alloc(64)
	assert.Equal(t, launchFailed, g.call("cuMemFree_v2", address))
	assert.Equal(t, launchFailed, g.sync(g.stream))
	g.owned = g.owned[:1] // leave the stream
	g.release()
	assert.Empty(t, Reports())
}

// A GPU that vanishes fails whatever is under way on it; the others go on, and what
// waits for it isn't held up.
func TestVanish(t *testing.T) {
	r := start(t, Machine{GPUs: 2, Fault: "vanish:1@3,slow:1@20ms"})
	good := r.open(0)
	fine, event := good.filled(64, 0), good.alloc(256)
	bad := r.open(1)
	src, dst, done := bad.filled(64, 0), bad.alloc(256), bad.event()
	p := copyParams{dst, src, 64, 0}
	require.Zero(t, bad.launch(bad.stream, "leat_test_copy", 1, p))
	require.Zero(t, bad.launch(bad.stream, "leat_test_copy", 1, p))
	bad.must("cuEventRecord", done, bad.stream)
	good.use()
	good.must("cuStreamWaitEvent", good.stream, done, 0)
	bad.use()
	function := bad.function("leat_test_copy")
	assert.Equal(t, launchFailed, bad.call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, bad.stream, uintptr(unsafe.Pointer(&[]unsafe.Pointer{unsafe.Pointer(&p)}[0])), 0))
	assert.Equal(t, launchFailed, bad.sync(bad.stream))
	assert.Equal(t, launchFailed, bad.call("cuEventSynchronize", done))
	bad.release()
	assert.Zero(t, bad.last)
	var again uintptr
	assert.Equal(t, launchFailed, r.call("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&again)), 1), "it doesn't come back")

	good.use()
	require.Zero(t, good.launch(good.stream, "leat_test_copy", 1, copyParams{event, fine, 64, 0}))
	assert.Zero(t, good.sync(good.stream))
}

func TestSlow(t *testing.T) {
	g := start(t, Machine{Fault: "slow:0@30ms"}).open(0)
	p := copyParams{g.alloc(256), g.filled(64, 0), 64, 0}
	began := time.Now()
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, p))
	require.Zero(t, g.launch(g.stream, "leat_test_copy", 1, p))
	require.Zero(t, g.sync(g.stream))
	assert.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestPeerAccess(t *testing.T) {
	for _, m := range []Machine{{GPUs: 2}, {GPUs: 2, NoPeer: true}} {
		r := start(t, m)
		near, far := r.open(0), r.open(1)
		src := far.filled(64, 5)
		near.use()
		dst := near.alloc(256)
		var can int32
		near.must("cuDeviceCanAccessPeer", uintptr(unsafe.Pointer(&can)), 0, 1)
		near.must("cuMemcpyPeerAsync", dst, near.context, src, far.context, 256, near.stream)
		assert.Equal(t, float32(5), near.floats(dst, 64)[0], "such a copy needs no access")
		assert.Equal(t, invalidValue, near.call("cuMemcpyDtoDAsync_v2", dst, src, 256, near.stream))
		near.reported("cuMemcpyDtoDAsync of 256 bytes .* another GPU's memory without peer access")
		if m.NoPeer {
			assert.Zero(t, can)
			assert.Equal(t, peerAccessUnsupported, near.call("cuCtxEnablePeerAccess", far.context, 0))
		} else {
			assert.EqualValues(t, 1, can)
			near.must("cuCtxEnablePeerAccess", far.context, 0)
			assert.Equal(t, peerAlreadyEnabled, near.call("cuCtxEnablePeerAccess", far.context, 0))
			require.Zero(t, near.launch(near.stream, "leat_test_copy", 1, copyParams{dst, src, 63, 1}))
			assert.Equal(t, float32(6), near.floats(dst, 64)[0])
			near.must("cuMemcpyDtoDAsync_v2", dst, src, 256, near.stream)
			require.Zero(t, near.sync(near.stream))
		}
		far.use() // access goes one way
		require.Zero(t, far.launch(far.stream, "leat_test_copy", 1, copyParams{src, dst, 64, 0}))
		assert.Equal(t, illegalAddress, far.sync(far.stream))
		far.reported("read of another GPU's memory without peer access")
		far.release()
		near.release()
	}
}

func TestPeerAccessEndsWithTheOtherContext(t *testing.T) {
	r := start(t, Machine{GPUs: 2})
	near, far := r.open(0), r.open(1)
	near.use()
	near.must("cuCtxEnablePeerAccess", far.context, 0)
	assert.Equal(t, invalidContext, near.call("cuCtxEnablePeerAccess", near.context, 0), "to itself")
	far.release()
	again := r.open(1)
	near.use()
	near.must("cuCtxEnablePeerAccess", again.context, 0)
	near.release()
	again.release()
}

func TestPeersThatLoseWhatTheyCopy(t *testing.T) {
	r := start(t, Machine{GPUs: 2, LossyPeer: true})
	near, far := r.open(0), r.open(1)
	first, second := far.filled(64, 5), far.filled(64, 7)
	near.use()
	dst := near.alloc(256)
	near.must("cuMemcpyPeerAsync", dst, near.context, first, far.context, 256, near.stream)
	assert.Equal(t, float32(5), near.floats(dst, 64)[0], "without access the driver goes through the host")
	near.must("cuCtxEnablePeerAccess", far.context, 0)
	near.must("cuMemcpyPeerAsync", dst, near.context, second, far.context, 256, near.stream)
	assert.Equal(t, float32(5), near.floats(dst, 64)[0])
	far.release()
	near.release()
}

func TestModules(t *testing.T) {
	g := start(t, Machine{Driver: 12040}).open(0)
	load := func(text string) (module uintptr, result int, log string) {
		image, buffer := append([]byte(text), 0), make([]byte, 200)
		options, values := []int32{5, 6}, []uintptr{uintptr(unsafe.Pointer(&buffer[0])), 200}
		result = g.call("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&image[0])), 2,
			uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values[0])))
		return module, result, string(buffer[:values[1]%200])
	}
	for _, bad := range []struct {
		text string
		code int
		log  string
	}{
		{"", invalidPTX, "no PTX"},
		{"\x7fELF", invalidPTX, "no PTX"},
		{".version 8.4\n.address_size 64", invalidPTX, "no .target"},
		{".version 8.4\n.target sm_75\n.entry f(", invalidPTX, "the declaration of entry f has no end"},
		{".version 8.5\n.target sm_75", unsupportedPTXVersion, "PTX 8.5 is newer than this driver's 8.4"},
		{".version 8.4\n.target sm_100", 209, "sm_100 is newer"},
	} {
		_, result, log := load(bad.text)
		assert.Equal(t, bad.code, result, "%q", bad.text)
		assert.Contains(t, log, bad.log)
	}

	module, result, _ := load(ptx("8.4", map[string]int{"leat_test_copy": 32, "leat_test_gone": 24, "leat_test_dp4a": 24}))
	require.Zero(t, result)
	var function uintptr
	look := func(name string) int {
		zeroed := append([]byte(name), 0)
		return g.call("cuModuleGetFunction", uintptr(unsafe.Pointer(&function)), module, uintptr(unsafe.Pointer(&zeroed[0])))
	}
	assert.Equal(t, notFound, look("leat_test_barrier"), "not in the PTX")
	assert.Equal(t, notFound, look("leat_test_gone"))
	g.reported("leat_test_gone is in the PTX but not in the emulator")
	assert.Equal(t, notFound, look("leat_test_copy"))
	g.reported("leat_test_copy has 32 bytes of parameters in the PTX and 24 in the emulator")
	require.Zero(t, look("leat_test_dp4a"))
	var most int32
	g.must("cuFuncGetAttribute", uintptr(unsafe.Pointer(&most)), 0, function)
	assert.EqualValues(t, 64, most)
	g.must("cuModuleUnload", module)
	assert.Equal(t, invalidHandle, g.call("cuFuncGetAttribute", uintptr(unsafe.Pointer(&most)), 0, function))
}

func TestWrongLaunches(t *testing.T) {
	r := start(t, Machine{GPUs: 2})
	other, g := r.open(1), r.open(0)
	p := copyParams{g.alloc(256), g.filled(64, 0), 64, 0}
	size := unsafe.Sizeof(p)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&p)
	pinner.Pin(&size)
	params := []uintptr{uintptr(unsafe.Pointer(&p))}
	extra := []uintptr{1, uintptr(unsafe.Pointer(&p)), 2, uintptr(unsafe.Pointer(&size)), 0}
	launch := func(x, threads, shared, stream uintptr, params, extra []uintptr) int {
		return g.call("cuLaunchKernel", g.function("leat_test_copy"), x, 1, 1, threads, 1, 1, shared, stream,
			uintptr(unsafe.Pointer(unsafe.SliceData(params))), uintptr(unsafe.Pointer(unsafe.SliceData(extra))))
	}
	assert.Zero(t, launch(1, 64, 0, g.stream, params, nil))
	assert.Zero(t, launch(1, 64, 0, g.stream, nil, extra))
	assert.Equal(t, invalidValue, launch(1, 64, 0, g.stream, params, extra))
	assert.Equal(t, invalidValue, launch(0, 64, 0, g.stream, params, nil))
	assert.Equal(t, invalidValue, launch(1, 64, 4, g.stream, params, nil), "there is no dynamic shared memory")
	assert.Equal(t, invalidHandle, launch(1, 64, 0, 0, params, nil), "the default stream isn't emulated")
	assert.Empty(t, Reports())
	assert.Equal(t, invalidValue, launch(1, 128, 0, g.stream, params, nil))
	g.reported(`leat_test_copy was launched with blocks of \(128, 1, 1\) threads, it takes \(64, 1, 1\)`)
	assert.Equal(t, invalidHandle, launch(1, 64, 0, other.stream, params, nil))
	g.reported("aren't of one GPU")
	size = 16
	assert.Equal(t, invalidValue, launch(1, 64, 0, g.stream, nil, extra))
	g.reported("leat_test_copy was launched with 16 bytes of parameters, it takes 24")
}

func TestConfigure(t *testing.T) {
	g := start(t, Machine{}).open(0)
	assert.ErrorContains(t, configure(Machine{}), "still retained")
	g.release()
	for _, m := range []Machine{{Memory: "64MB"}, {GPUs: 17}, {Memory: "2000000GiB"}, {Fault: "cuMemAlloc"}, {Fault: "cuMemAlloc:0"},
		{Fault: "cuMemAlloc:1@16"}, {Fault: "slow:0@2"}, {Fault: "vanish:0"}, {Fault: "memAlloc:1"}, {Fault: "cuMemAlloc:1=0"}} {
		assert.Error(t, configure(m), "%+v", m)
	}
	assert.NoError(t, configure(Machine{GPUs: 16, Memory: "80GiB", Fault: "slow:15@3us,cuLaunchKernel:5+@1=700"}))
}

// What the driver says of its GPUs.
func TestDevices(t *testing.T) {
	r := start(t, Machine{GPUs: 3, Memory: "64MiB"})
	var n, device, major int32
	var total uint64
	name, bus := make([]byte, 64), make([]byte, 16)
	r.must("cuDeviceGetCount", uintptr(unsafe.Pointer(&n)))
	r.must("cuDeviceGet", uintptr(unsafe.Pointer(&device)), 2)
	r.must("cuDeviceGetName", uintptr(unsafe.Pointer(&name[0])), 64, 2)
	r.must("cuDeviceGetPCIBusId", uintptr(unsafe.Pointer(&bus[0])), 16, 2)
	r.must("cuDeviceTotalMem_v2", uintptr(unsafe.Pointer(&total)), 2)
	r.must("cuDeviceGetAttribute", uintptr(unsafe.Pointer(&major)), 75, 2)
	assert.Equal(t, []int32{3, 2, 9}, []int32{n, device, major})
	assert.EqualValues(t, 64<<20, total)
	assert.Contains(t, string(name), "emulated")
	assert.Equal(t, "0000:E2:00.0\x00", string(bus[:13]))
	assert.Equal(t, 101, r.call("cuDeviceGet", uintptr(unsafe.Pointer(&device)), 3))
	assert.Equal(t, invalidValue, r.call("cuDeviceGetAttribute", uintptr(unsafe.Pointer(&major)), 9999, 0))

	var text *byte
	r.must("cuGetErrorName", outOfMemory, uintptr(unsafe.Pointer(&text)))
	assert.Equal(t, "CUDA_ERROR_OUT_OF_MEMORY", string(unsafe.Slice(text, 24)))
	r.must("cuGetErrorString", launchFailed, uintptr(unsafe.Pointer(&text)))
	assert.Equal(t, "unspecified launch failure", string(unsafe.Slice(text, 26)))
	assert.Equal(t, invalidValue, r.call("cuGetErrorName", 12345, uintptr(unsafe.Pointer(&text))))
}
