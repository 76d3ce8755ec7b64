package cuda

import (
	"runtime"
	"strings"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/device/internal/dynlib"
)

// calls calls the library's functions. It implements driver.Calls. It may be used by only one
// goroutine at a time. For Current and Launch it must be on the heap, because the driver
// accesses its fields.
type calls struct {
	cuda    *cuda
	caller  dynlib.Caller
	current uintptr // the result of cuCtxGetCurrent
	params  *params // allocated at the first launch
}

// call calls a function. Memory that an argument points to must be on the heap, where it
// doesn't move.
func (c *calls) call(s symbol, args ...uintptr) result {
	return result(int32(c.caller.Call(c.cuda.entry[s], args...))) // the upper half of the register is undefined
}

// do is like call, but returns the result as an error.
func (c *calls) do(s symbol, args ...uintptr) *driver.Error {
	if code := c.call(s, args...); code != success {
		return c.fault(s, code)
	}
	return nil
}

// fill is like do, for a function that writes to a Go variable whose address is converted to
// uintptr in the call. The pragma makes such a variable escape to the heap, so fill allocates.
//
//go:uintptrescapes
func (c *calls) fill(s symbol, args ...uintptr) *driver.Error { return c.do(s, args...) }

func (c *calls) Retain(gpu int32) (context uintptr, err *driver.Error) {
	err = c.fill(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&context)), uintptr(gpu))
	return context, err
}

func (c *calls) Release(gpu int32) *driver.Error {
	return c.do(cuDevicePrimaryCtxRelease, uintptr(gpu))
}

func (c *calls) Current() (context uintptr, err *driver.Error) {
	err = c.do(cuCtxGetCurrent, uintptr(unsafe.Pointer(&c.current)))
	return c.current, err
}

func (c *calls) SetCurrent(context uintptr) *driver.Error { return c.do(cuCtxSetCurrent, context) }

func (c *calls) CanAccessPeer(gpu, peer int32) (bool, *driver.Error) {
	var can int32
	err := c.fill(cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(&can)), uintptr(gpu), uintptr(peer))
	return can != 0, err
}

func (c *calls) EnablePeer(context uintptr) (bool, *driver.Error) {
	switch code := c.call(cuCtxEnablePeerAccess, context, 0); code {
	case success, peerEnabled:
		return true, nil
	case tooManyPeers, peerUnsupported, notSupported:
		return false, nil // some machines support at most eight peers for each GPU
	default:
		return false, c.fault(cuCtxEnablePeerAccess, code)
	}
}

func (c *calls) MemInfo() (free, total int64, err *driver.Error) {
	err = c.fill(cuMemGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

func (c *calls) MemAlloc(bytes int64) (address uintptr, err *driver.Error) {
	err = c.fill(cuMemAlloc, uintptr(unsafe.Pointer(&address)), uintptr(bytes))
	return address, err
}

func (c *calls) MemFree(address uintptr) *driver.Error { return c.do(cuMemFree, address) }

func (c *calls) HostAlloc(bytes int64) (mem unsafe.Pointer, err *driver.Error) {
	err = c.fill(cuMemHostAlloc, uintptr(unsafe.Pointer(&mem)), uintptr(bytes), hostPortable)
	return mem, err
}

func (c *calls) HostFree(mem unsafe.Pointer) *driver.Error { return c.do(cuMemFreeHost, uintptr(mem)) }

func (c *calls) CopyToGPU(dst uintptr, src unsafe.Pointer, bytes int, stream uintptr) *driver.Error {
	return c.do(cuMemcpyHtoDAsync, dst, uintptr(src), uintptr(bytes), stream)
}

func (c *calls) CopyToHost(dst unsafe.Pointer, src uintptr, bytes int, stream uintptr) *driver.Error {
	return c.do(cuMemcpyDtoHAsync, uintptr(dst), src, uintptr(bytes), stream)
}

func (c *calls) CopyPeer(dst, to, src, from uintptr, bytes int64, stream uintptr) *driver.Error {
	return c.do(cuMemcpyPeerAsync, dst, to, src, from, uintptr(bytes), stream)
}

func (c *calls) Zero(address uintptr, bytes int64, stream uintptr) *driver.Error {
	return c.do(cuMemsetD8Async, address, 0, uintptr(bytes), stream)
}

func (c *calls) StreamCreate() (stream uintptr, err *driver.Error) {
	err = c.fill(cuStreamCreate, uintptr(unsafe.Pointer(&stream)), streamNonBlocking)
	return stream, err
}

func (c *calls) StreamDestroy(stream uintptr) *driver.Error { return c.do(cuStreamDestroy, stream) }

func (c *calls) StreamSynchronize(stream uintptr) *driver.Error {
	return c.do(cuStreamSynchronize, stream)
}

func (c *calls) StreamWait(stream, event uintptr) *driver.Error {
	return c.do(cuStreamWaitEvent, stream, event, 0)
}

func (c *calls) EventCreate() (event uintptr, err *driver.Error) {
	err = c.fill(cuEventCreate, uintptr(unsafe.Pointer(&event)), eventForWaiting)
	return event, err
}

func (c *calls) EventRecord(event, stream uintptr) *driver.Error {
	return c.do(cuEventRecord, event, stream)
}

func (c *calls) EventSynchronize(event uintptr) *driver.Error { return c.do(cuEventSynchronize, event) }
func (c *calls) EventDestroy(event uintptr) *driver.Error     { return c.do(cuEventDestroy, event) }

// compilerLog receives the messages of the driver's compiler. It is one object on the heap,
// because values contains the address of text.
type compilerLog struct {
	options [2]int32
	values  [2]uintptr
	text    [8 << 10]byte
}

// ModuleLoad compiles PTX, or loads the result from the driver's cache.
func (c *calls) ModuleLoad(image []byte) (module uintptr, err *driver.Error) {
	text := append(image[:len(image):len(image)], 0) // PTX ends with a 0
	log := new(compilerLog)
	log.options = [...]int32{jitErrorLog, jitErrorLogBytes}
	log.values = [...]uintptr{uintptr(unsafe.Pointer(&log.text)), uintptr(len(log.text))}
	err = c.fill(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(unsafe.SliceData(text))),
		uintptr(len(log.options)), uintptr(unsafe.Pointer(&log.options)), uintptr(unsafe.Pointer(&log.values)))
	runtime.KeepAlive(log)
	if said := strings.Join(strings.Fields(until0(log.text[:])), " "); err != nil && said != "" {
		err.Detail = said
	}
	return module, err
}

func (c *calls) ModuleUnload(module uintptr) *driver.Error { return c.do(cuModuleUnload, module) }

// ModuleFunction also queries the maximum number of threads. A driver that loads functions
// lazily loads this one for the query, so that no launch has to wait for it.
func (c *calls) ModuleFunction(module uintptr, name string) (function uintptr, threads int, err *driver.Error) {
	text := append([]byte(name), 0)
	err = c.fill(cuModuleGetFunction, uintptr(unsafe.Pointer(&function)), module, uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	if err != nil {
		return 0, 0, err
	}
	var n int32
	err = c.fill(cuFuncGetAttribute, uintptr(unsafe.Pointer(&n)), functionMaxThreads, function)
	return function, int(n), err
}

// params is the memory of a launch's parameters. It must not move, because extra, the argument
// of cuLaunchKernel with that name, contains addresses of the other fields.
type params struct {
	of    [driver.MostParams]byte
	bytes uintptr // the size of the parameters in of
	extra [5]uintptr
}

func newParams() *params {
	p := new(params)
	p.extra = [...]uintptr{
		launchParams, uintptr(unsafe.Pointer(&p.of)),
		launchParamBytes, uintptr(unsafe.Pointer(&p.bytes)),
		launchEnd,
	}
	return p
}

func (c *calls) Launch(function uintptr, g device.Grid, stream uintptr, from []byte) *driver.Error {
	if c.params == nil {
		c.params = newParams()
	}
	c.params.bytes = uintptr(copy(c.params.of[:], from))
	return c.do(cuLaunchKernel, function,
		uintptr(g.X), uintptr(g.Y), uintptr(g.Z), uintptr(g.Threads), 1, 1,
		0, stream, 0, uintptr(unsafe.Pointer(&c.params.extra)))
}
