//go:build amd64 || arm64

package emulator

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// What the driver returns, by CUDA's own names.
const (
	invalidValue          = 1
	outOfMemory           = 2
	notInitialized        = 3
	deviceUnavailable     = 46
	noDevice              = 100
	invalidContext        = 201
	peerAccessUnsupported = 217
	invalidPTX            = 218
	unsupportedPTXVersion = 222
	invalidHandle         = 400
	notFound              = 500
	notReady              = 600
	illegalAddress        = 700
	peerAlreadyEnabled    = 704
	contextIsDestroyed    = 709
	launchFailed          = 719
)

// poison is what the emulator fills memory with.
const poison = 0x7fcdeadc

// rig calls the driver from one OS thread.
type rig struct {
	testing.TB
	handle uintptr
	entry  map[string]uintptr
}

// start makes a machine and initializes the driver.
func start(t *testing.T, m Machine) *rig {
	r := bare(t, m)
	r.must("cuInit", 0)
	return r
}

// bare is start without cuInit.
func bare(t *testing.T, m Machine) *rig {
	Use(t, m)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	handle, err := purego.Dlopen(Library(), purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	return &rig{TB: t, handle: handle, entry: map[string]uintptr{}}
}

// call returns the driver's result.
//
//go:uintptrescapes
func (r *rig) call(name string, args ...uintptr) int {
	if r.entry[name] == 0 {
		entry, err := purego.Dlsym(r.handle, name)
		require.NoError(r, err)
		r.entry[name] = entry
	}
	result, _, _ := purego.SyscallN(r.entry[name], args...)
	return int(int32(result))
}

// must is a call that succeeds.
//
//go:uintptrescapes
func (r *rig) must(name string, args ...uintptr) {
	r.Helper()
	require.Zero(r, r.call(name, args...), name)
}

// reported fails the test unless the emulator has reported just what the pattern says.
func (r *rig) reported(pattern string) {
	r.Helper()
	reports := Reports()
	require.Len(r, reports, 1, "reports, want %q", pattern)
	require.Regexp(r, regexp.MustCompile(pattern), reports[0])
}

// gpu is a retained context with the self-test's module.
type gpu struct {
	*rig
	number  int
	context uintptr
	module  uintptr
	stream  uintptr
	streams []uintptr // all
	owned   []func()  // free what was made on it
	last    int       // what the last release returned
}

// open retains a GPU's context and makes it current. At the test's end it is released.
func (r *rig) open(number int) *gpu {
	r.Helper()
	g := &gpu{rig: r, number: number}
	r.must("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&g.context)), uintptr(number))
	r.must("cuCtxSetCurrent", g.context)
	r.Cleanup(func() {
		if g.context != 0 {
			g.release()
		}
	})
	text := append([]byte(selftest), 0)
	r.must("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&g.module)), uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
	g.owned = append(g.owned, func() { g.call("cuModuleUnload", g.module) })
	g.stream = g.another()
	return g
}

// release waits for all streams, frees all that was made and releases the context.
func (g *gpu) release() {
	g.use()
	for _, s := range g.streams {
		g.sync(s)
	}
	for _, free := range slices.Backward(g.owned) {
		free()
	}
	g.call("cuCtxSetCurrent", 0)
	g.last = g.call("cuDevicePrimaryCtxRelease_v2", uintptr(g.number))
	g.context = 0
}

// use makes the GPU's context the current one.
func (g *gpu) use() { g.call("cuCtxSetCurrent", g.context) }

// another is a stream more.
func (g *gpu) another() (stream uintptr) {
	g.Helper()
	g.must("cuStreamCreate", uintptr(unsafe.Pointer(&stream)), 1)
	g.streams = append(g.streams, stream)
	g.owned = append(g.owned, func() { g.call("cuStreamDestroy_v2", stream) })
	return stream
}

// event is one that release destroys.
func (g *gpu) event() (event uintptr) {
	g.Helper()
	g.must("cuEventCreate", uintptr(unsafe.Pointer(&event)), 2)
	g.owned = append(g.owned, func() { g.call("cuEventDestroy_v2", event) })
	return event
}

// alloc is device memory that release frees.
func (g *gpu) alloc(bytes int) (address uintptr) {
	g.Helper()
	g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&address)), uintptr(bytes))
	g.owned = append(g.owned, func() { g.call("cuMemFree_v2", address) })
	return address
}

// pinned is host memory of n floats that release frees.
func (g *gpu) pinned(n int) []float32 {
	g.Helper()
	var host unsafe.Pointer
	g.must("cuMemHostAlloc", uintptr(unsafe.Pointer(&host)), uintptr(4*n), 1)
	g.owned = append(g.owned, func() { g.call("cuMemFreeHost", uintptr(host)) })
	return unsafe.Slice((*float32)(host), n)
}

func (g *gpu) upload(to uintptr, from []float32, stream uintptr) int {
	return g.call("cuMemcpyHtoDAsync_v2", to, uintptr(unsafe.Pointer(&from[0])), uintptr(4*len(from)), stream)
}

func (g *gpu) download(to []float32, from, stream uintptr) int {
	return g.call("cuMemcpyDtoHAsync_v2", uintptr(unsafe.Pointer(&to[0])), from, uintptr(4*len(to)), stream)
}

func (g *gpu) sync(stream uintptr) int { return g.call("cuStreamSynchronize", stream) }

// filled is device memory with the numbers from first on, done.
func (g *gpu) filled(n int, first float32) uintptr {
	g.Helper()
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = first + float32(i)
	}
	address := g.alloc(4 * n)
	require.Zero(g, g.upload(address, numbers, g.stream))
	require.Zero(g, g.sync(g.stream))
	return address
}

// floats is what device memory holds when the GPU's stream is done.
func (g *gpu) floats(address uintptr, n int) []float32 {
	g.Helper()
	numbers := make([]float32, n)
	require.Zero(g, g.download(numbers, address, g.stream))
	return numbers
}

func (g *gpu) function(name string) (function uintptr) {
	g.Helper()
	zeroed := append([]byte(name), 0)
	g.must("cuModuleGetFunction", uintptr(unsafe.Pointer(&function)), g.module, uintptr(unsafe.Pointer(&zeroed[0])))
	return function
}

// copyParams are those of most kernels of the self-test.
type copyParams struct {
	dst, src uintptr
	n, from  int32
}

// launch launches blocks of 64 threads of a kernel with copyParams.
func (g *gpu) launch(stream uintptr, name string, blocks int, p copyParams) int {
	g.Helper()
	return g.launchWith(stream, name, [3]uintptr{uintptr(blocks), 1, 1}, unsafe.Pointer(&p))
}

func (g *gpu) launchWith(stream uintptr, name string, grid [3]uintptr, p unsafe.Pointer) int {
	g.Helper()
	params := []unsafe.Pointer{p}
	return g.call("cuLaunchKernel", g.function(name), grid[0], grid[1], grid[2], 64, 1, 1, 0, stream,
		uintptr(unsafe.Pointer(&params[0])), 0)
}

// selftest is a PTX text that names the kernels of driver/selftest.cc. The emulator
// reads no more of it than the declarations.
var selftest = ptx("8.4", map[string]int{
	"leat_test_copy": 24, "leat_test_misaligned": 24, "leat_test_shuffle": 24, "leat_test_barrier": 24,
	"leat_test_no_barrier": 24, "leat_test_poison": 24, "leat_test_shared": 24, "leat_test_leave": 24,
	"leat_test_diverge": 24, "leat_test_status": 16, "leat_test_half": 16, "leat_test_round": 16, "leat_test_dp4a": 24,
	"leat_test_unordered_shared": 16, "leat_test_unordered_device": 16,
})

// ptx declares entries by the bytes of their parameter.
func ptx(version string, entries map[string]int) string {
	text := "// made by hand\n.version " + version + "\n.target sm_75\n.address_size 64\n"
	for name, bytes := range entries {
		text += fmt.Sprintf("\n.visible .entry %s(\n\t.param .align 8 .b8 %s_param_0[%d]\n)\n.maxntid 64, 1, 1\n{\n\tret;\n}\n", name, name, bytes)
	}
	return text
}
