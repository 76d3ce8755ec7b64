package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// primary is a GPU's primary context: the one that all users of a GPU in a process
// share. The driver counts them.
type primary struct {
	driver  *driver
	name    string // of the GPU: "cuda:1"
	ordinal int32  // the driver's handle of the GPU
	handle  uintptr

	lost atomic.Pointer[lostError]
}

// lostError is the error of what comes after the GPU was lost.
type lostError struct {
	device string
	first  *Error
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%s: lost before: %s: close all that uses it, or start the program again", e.device, e.first)
}

func (e *lostError) Unwrap() error { return e.first }

// retain takes part in a GPU's primary context, until release.
func (d *driver) retain(name string, ordinal int32) (*primary, error) {
	p := &primary{driver: d, name: name, ordinal: ordinal}
	c := caller{driver: d}
	code := c.fill(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&p.handle)), uintptr(ordinal))
	switch code {
	case success:
		return p, nil
	case deviceUnavailable:
		return nil, d.fault(name, cuDevicePrimaryCtxRetain, code, "the GPU is busy: another process may have it for itself")
	case outOfMemory:
		return nil, d.fault(name, cuDevicePrimaryCtxRetain, code, "the GPU has no memory left for another process")
	}
	return nil, d.fault(name, cuDevicePrimaryCtxRetain, code, "")
}

func (p *primary) release() error {
	c := caller{driver: p.driver}
	return p.check(cuDevicePrimaryCtxRelease, c.call(cuDevicePrimaryCtxRelease, uintptr(p.ordinal)))
}

// check returns the error of a call on the GPU, nil if there is none, and notes
// whether the GPU is lost.
func (p *primary) check(s symbol, code result) error {
	if code == success {
		return nil
	}
	return p.note(p.driver.fault(p.name, s, code, ""))
}

func (p *primary) note(e *Error) error {
	if e.Is(ErrLost) {
		p.lost.CompareAndSwap(nil, &lostError{p.name, e})
	}
	return e
}

// lose counts the GPU as lost, if there is an error.
func (p *primary) lose(err error) {
	if e := (*Error)(nil); errors.As(err, &e) {
		p.lost.CompareAndSwap(nil, &lostError{p.name, e})
	}
}

// gone is the error of a GPU that was lost, nil while it isn't.
func (p *primary) gone() error {
	if e := p.lost.Load(); e != nil {
		return e
	}
	return nil
}

// same says that both are one GPU.
func (p *primary) same(other *primary) bool {
	return p.driver == other.driver && p.ordinal == other.ordinal
}

// memory returns the GPU's bytes that are free, and all of them.
func (p *primary) memory() (free, total int64, err error) {
	v := p.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, 0, err
	}
	var f, t uint64
	code := v.fill(cuMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), p.check(cuMemGetInfo, code)
}

// visit is a goroutine's time on a GPU: from enter to leave it is locked to its
// thread, and the GPU's context is the thread's current one. Visits of one goroutine
// may nest. It allocates nothing.
type visit struct {
	caller
	primary *primary
	before  uintptr // the context that was current
	entered bool
	current bool // the GPU's context is the thread's
}

// visit makes a visit. The driver writes to it, so it must not be on a stack, which
// may move: what a function returns that isn't inlined never is.
//
//go:noinline
func (p *primary) visit() *visit {
	return &visit{caller: caller{driver: p.driver}, primary: p}
}

// enter begins the visit. Whether it fails or not, leave must follow.
func (v *visit) enter() error {
	runtime.LockOSThread()
	code := v.call(cuCtxGetCurrent, uintptr(unsafe.Pointer(&v.before)))
	if err := v.primary.check(cuCtxGetCurrent, code); err != nil {
		return err
	}
	v.entered = true
	err := v.primary.check(cuCtxSetCurrent, v.call(cuCtxSetCurrent, v.primary.handle))
	v.current = err == nil
	return err
}

// leave puts the thread back as it was. What the call returns says nothing about
// the visit.
func (v *visit) leave() {
	if v.entered {
		v.entered, v.current = false, false
		if v.call(cuCtxSetCurrent, v.before) != success {
			v.call(cuCtxSetCurrent, 0) // so that none stays that may be destroyed
		}
	}
	runtime.UnlockOSThread()
}
