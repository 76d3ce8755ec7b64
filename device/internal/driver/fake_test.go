package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// fake is a driver in Go: its streams are goroutines, its memory is Go's. Calls fail as
// they are told to, and what isn't given back can be seen.
type fake struct {
	gpus   int
	peers  bool // GPUs read each other's memory
	lossy  bool // but what they copy doesn't arrive
	slow   chan struct{}
	unfit  map[int]error // GPUs that can't be used
	mu     sync.Mutex    // guards what follows
	next   uintptr       // handle or address
	fails  map[string]failing
	counts map[string]int // calls by name

	contexts map[uintptr]int // handle of the GPU, plus 1, and how often it was retained
	memory   map[uintptr][]byte
	host     map[unsafe.Pointer][]byte
	streams  map[uintptr]*fakeStream
	events   map[uintptr]*fakeEvent
	modules  map[uintptr]bool
	kernels  map[uintptr]string
}

// failing is how a call fails: the n-th of its name, counted from 1.
type failing struct {
	n   int
	err Error
}

func newFake(gpus int) *fake {
	return &fake{
		gpus: gpus, peers: true, next: 1 << 20, fails: map[string]failing{}, counts: map[string]int{}, unfit: map[int]error{},
		contexts: map[uintptr]int{}, memory: map[uintptr][]byte{}, host: map[unsafe.Pointer][]byte{},
		streams: map[uintptr]*fakeStream{}, events: map[uintptr]*fakeEvent{}, modules: map[uintptr]bool{}, kernels: map[uintptr]string{},
	}
}

// left lists what wasn't given back.
func (f *fake) left() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, n := range map[string]int{
		"contexts": len(f.contexts), "memory": len(f.memory), "host memory": len(f.host),
		"streams": len(f.streams), "events": len(f.events), "modules": len(f.modules),
	} {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	return all
}

func (f *fake) Calls() Calls        { return &fakeCalls{fake: f} }
func (f *fake) Count() (int, error) { return f.gpus, nil }

func (f *fake) Handle(i int) (int32, error) {
	if err := f.called("Handle"); err != nil {
		return 0, err
	}
	return int32(10 + i), nil
}

func (f *fake) Describe(gpu int32, name string) (device.Info, error) {
	return device.Info{Description: fmt.Sprintf("a fake of %d", gpu), Memory: 1 << 30}, f.unfit[int(gpu)-10]
}

// called counts a call and says whether it fails.
func (f *fake) called(name string) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[name]++
	if how, ok := f.fails[name]; ok && how.n == f.counts[name] {
		err := how.err
		err.Call = name
		return &err
	}
	return nil
}

// handle returns a number that nothing else has. The lock is held.
func (f *fake) handle(bytes int) uintptr {
	h := f.next
	f.next += (uintptr(bytes) + 511) &^ 255
	return h
}

// dirty is memory that nobody has cleared, as far as its beginning and end show.
func dirty(bytes int64) []byte {
	mem := make([]byte, bytes)
	mem[0], mem[bytes-1] = 0xa5, 0xa5
	return mem
}

// at returns n bytes of device memory. The lock is held.
func (f *fake) at(address uintptr, n int) []byte {
	for begin, mem := range f.memory {
		if begin <= address && address+uintptr(n) <= begin+uintptr(len(mem)) {
			return mem[address-begin:][:n]
		}
	}
	panic(fmt.Sprintf("%d bytes at %#x aren't allocated", n, address))
}

// fakeStream runs what is enqueued in order.
type fakeStream struct {
	context uintptr
	work    chan func()
	ended   chan struct{}
}

// fakeEvent is closed when its latest recording is done.
type fakeEvent struct{ done chan struct{} }

// fakeCalls implements Calls. The current context is its own, not the thread's.
type fakeCalls struct {
	fake    *fake
	current uintptr
}

// call begins a call that needs a current context.
func (c *fakeCalls) call(name string) *Error {
	if c.current == 0 {
		panic(name + " without a context")
	}
	return c.fake.called(name)
}

func (c *fakeCalls) Retain(gpu int32) (uintptr, *Error) {
	if err := c.fake.called("Retain"); err != nil {
		return 0, err
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	context := uintptr(gpu) + 1
	c.fake.contexts[context]++
	return context, nil
}

func (c *fakeCalls) Release(gpu int32) *Error {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	context := uintptr(gpu) + 1
	if c.fake.contexts[context]--; c.fake.contexts[context] == 0 {
		delete(c.fake.contexts, context)
	}
	return nil
}

func (c *fakeCalls) Current() (uintptr, *Error) { return c.current, c.fake.called("Current") }

func (c *fakeCalls) SetCurrent(context uintptr) *Error {
	if context != 0 { // leaving can't fail here: nobody would hear of it
		if err := c.fake.called("SetCurrent"); err != nil {
			return err
		}
	}
	c.current = context
	return nil
}

func (c *fakeCalls) CanAccessPeer(gpu, peer int32) (bool, *Error) {
	return c.fake.peers, c.fake.called("CanAccessPeer")
}

func (c *fakeCalls) EnablePeer(context uintptr) (bool, *Error) {
	err := c.call("EnablePeer")
	return err == nil, err
}

func (c *fakeCalls) MemInfo() (free, total int64, err *Error) {
	return 1 << 29, 1 << 30, c.call("MemInfo")
}

func (c *fakeCalls) MemAlloc(bytes int64) (uintptr, *Error) {
	if err := c.call("MemAlloc"); err != nil {
		return 0, err
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	address := c.fake.handle(int(bytes))
	c.fake.memory[address] = dirty(bytes)
	return address, nil
}

func (c *fakeCalls) MemFree(address uintptr) *Error {
	err := c.call("MemFree")
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	delete(c.fake.memory, address)
	return err
}

func (c *fakeCalls) HostAlloc(bytes int64) (unsafe.Pointer, *Error) {
	if err := c.call("HostAlloc"); err != nil {
		return nil, err
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	mem := dirty(bytes)
	c.fake.host[unsafe.Pointer(&mem[0])] = mem
	return unsafe.Pointer(&mem[0]), nil
}

func (c *fakeCalls) HostFree(mem unsafe.Pointer) *Error {
	err := c.call("HostFree")
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	delete(c.fake.host, mem)
	return err
}

// enqueue has something done in a stream's order.
func (c *fakeCalls) enqueue(name string, stream uintptr, do func()) *Error {
	if err := c.call(name); err != nil {
		return err
	}
	c.fake.mu.Lock()
	s := c.fake.streams[stream]
	c.fake.mu.Unlock()
	if s == nil || s.context != c.current {
		panic(name + " on a stream of another context, or none")
	}
	s.work <- do
	return nil
}

func (c *fakeCalls) CopyToGPU(dst uintptr, src unsafe.Pointer, bytes int, stream uintptr) *Error {
	from := unsafe.Slice((*byte)(src), bytes)
	return c.enqueue("CopyToGPU", stream, func() { c.fake.write(dst, from) })
}

func (c *fakeCalls) CopyToHost(dst unsafe.Pointer, src uintptr, bytes int, stream uintptr) *Error {
	to := unsafe.Slice((*byte)(dst), bytes)
	return c.enqueue("CopyToHost", stream, func() {
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		copy(to, c.fake.at(src, bytes))
	})
}

func (c *fakeCalls) CopyPeer(dst, to, src, from uintptr, bytes int64, stream uintptr) *Error {
	if to != c.current || from == to {
		panic("CopyPeer to another context, or from the same")
	}
	return c.enqueue("CopyPeer", stream, func() {
		if c.fake.lossy {
			return
		}
		c.fake.mu.Lock()
		mem := slices.Clone(c.fake.at(src, int(bytes)))
		c.fake.mu.Unlock()
		c.fake.write(dst, mem)
	})
}

func (c *fakeCalls) Zero(address uintptr, bytes int64, stream uintptr) *Error {
	return c.enqueue("Zero", stream, func() { c.fake.write(address, make([]byte, bytes)) })
}

func (f *fake) write(address uintptr, from []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	copy(f.at(address, len(from)), from)
}

func (c *fakeCalls) StreamCreate() (uintptr, *Error) {
	if err := c.call("StreamCreate"); err != nil {
		return 0, err
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	h := c.fake.handle(1)
	s := &fakeStream{context: c.current, work: make(chan func(), 1<<10), ended: make(chan struct{})}
	c.fake.streams[h] = s
	go func() {
		defer close(s.ended)
		for do := range s.work {
			do()
		}
	}()
	return h, nil
}

func (c *fakeCalls) StreamDestroy(stream uintptr) *Error {
	err := c.call("StreamDestroy")
	c.fake.mu.Lock()
	s := c.fake.streams[stream]
	delete(c.fake.streams, stream)
	c.fake.mu.Unlock()
	close(s.work)
	<-s.ended
	return err
}

func (c *fakeCalls) StreamSynchronize(stream uintptr) *Error {
	done := make(chan struct{})
	if err := c.enqueue("StreamSynchronize", stream, func() { close(done) }); err != nil {
		return err
	}
	<-done
	return nil
}

func (c *fakeCalls) StreamWait(stream, event uintptr) *Error {
	c.fake.mu.Lock()
	done := c.fake.events[event].done
	c.fake.mu.Unlock()
	return c.enqueue("StreamWait", stream, func() { <-done })
}

func (c *fakeCalls) EventCreate() (uintptr, *Error) {
	if err := c.call("EventCreate"); err != nil {
		return 0, err
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	h := c.fake.handle(1)
	done := make(chan struct{})
	close(done)
	c.fake.events[h] = &fakeEvent{done}
	return h, nil
}

func (c *fakeCalls) EventRecord(event, stream uintptr) *Error {
	done := make(chan struct{})
	err := c.enqueue("EventRecord", stream, func() { close(done) })
	if err == nil {
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		c.fake.events[event].done = done
	}
	return err
}

func (c *fakeCalls) EventSynchronize(event uintptr) *Error {
	err := c.call("EventSynchronize")
	if err == nil {
		c.fake.mu.Lock()
		done := c.fake.events[event].done
		c.fake.mu.Unlock()
		<-done
	}
	return err
}

func (c *fakeCalls) EventDestroy(event uintptr) *Error {
	err := c.call("EventDestroy")
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	delete(c.fake.events, event)
	return err
}

func (c *fakeCalls) ModuleLoad(image []byte) (uintptr, *Error) {
	if err := c.call("ModuleLoad"); err != nil {
		return 0, err
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	h := c.fake.handle(1)
	c.fake.modules[h] = true
	return h, nil
}

func (c *fakeCalls) ModuleUnload(module uintptr) *Error {
	err := c.call("ModuleUnload")
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	delete(c.fake.modules, module)
	return err
}

// The kernels that every fake program has.
const (
	increment = "increment" // adds 1 to a byte at an address
	report    = "report"    // writes 6 to the status at an address
)

func (c *fakeCalls) ModuleFunction(module uintptr, name string) (uintptr, int, *Error) {
	if err := c.call("ModuleFunction"); err != nil {
		return 0, 0, err
	}
	if name != increment && name != report {
		return 0, 0, &Error{Call: "ModuleFunction", Name: "NOT_FOUND"}
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	h := c.fake.handle(1)
	c.fake.kernels[h] = name
	return h, 32, nil
}

func (c *fakeCalls) Launch(function uintptr, _ device.Grid, stream uintptr, params []byte) *Error {
	c.fake.mu.Lock()
	name := c.fake.kernels[function]
	c.fake.mu.Unlock()
	address := uintptr(binary.LittleEndian.Uint64(params))
	return c.enqueue("Launch", stream, func() {
		if c.fake.slow != nil {
			<-c.fake.slow
		}
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		if mem := c.fake.at(address, 1); name == increment {
			mem[0]++
		} else {
			mem[0] = 6
		}
	})
}

var errBroken = errors.New("broken")
