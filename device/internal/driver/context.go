package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

// gpu is a GPU and a reference to its primary context, which is the same for all users of
// the GPU in a process. The driver counts the references.
type gpu struct {
	driver  Driver
	name    string  // "cuda:1"
	handle  int32   // the driver's handle for the GPU
	context uintptr // the driver's handle for the context

	lost atomic.Pointer[lostError] // nil until the GPU is lost
}

// lostError is the error of all operations after the GPU was lost.
type lostError struct {
	device string // the GPU's name
	first  *Error // the error with which it was lost
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%s: the GPU was lost earlier: %s: close everything that uses it, or restart the program", e.device, e.first)
}

func (e *lostError) Unwrap() error { return e.first }

// retain returns a GPU with a reference to its context, which release drops.
func retain(d Driver, name string, handle int32) (*gpu, error) {
	g := &gpu{driver: d, name: name, handle: handle}
	var err *Error
	g.context, err = d.Calls().Retain(handle)
	return g, g.named(err)
}

// release drops the reference to the context.
func (g *gpu) release() error { return g.check(g.driver.Calls().Release(g.handle)) }

// named sets the GPU's name in the error of a call. It returns nil if e is nil.
func (g *gpu) named(e *Error) error {
	if e == nil {
		return nil
	}
	e.Device = g.name
	return e
}

// check does what named does, and marks the GPU as lost if the error says so.
func (g *gpu) check(e *Error) error {
	if e != nil && e.Lost {
		g.lost.CompareAndSwap(nil, &lostError{g.name, e})
	}
	return g.named(e)
}

// lose marks the GPU as lost if err is an error of the driver.
func (g *gpu) lose(err error) {
	if e := (*Error)(nil); errors.As(err, &e) {
		g.lost.CompareAndSwap(nil, &lostError{g.name, e})
	}
}

// Lost returns an error if the GPU was lost, and nil otherwise.
func (g *gpu) Lost() error {
	if e := g.lost.Load(); e != nil {
		return e
	}
	return nil
}

// same reports whether both are the same GPU.
func (g *gpu) same(other *gpu) bool { return g.driver == other.driver && g.handle == other.handle }

// memory returns the bytes of the GPU's memory that are free, and those in total.
func (g *gpu) memory() (free, total int64, err error) {
	v := g.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, 0, err
	}
	free, total, failed := v.calls.MemInfo()
	return free, total, g.check(failed)
}

// visit is a scope in which a goroutine calls the driver for a GPU. From enter to leave, the
// goroutine is locked to its thread, and the GPU's context is the thread's current context.
// Visits of one goroutine may nest. Neither enter nor leave allocates.
type visit struct {
	calls   Calls
	gpu     *gpu
	before  uintptr // the context that was current before
	entered bool    // whether before is set, so that leave restores it
	current bool    // whether the GPU's context is the thread's current one
}

func (g *gpu) visit() *visit { return &visit{calls: g.driver.Calls(), gpu: g} }

// enter begins the visit. The caller must call leave even if enter fails.
func (v *visit) enter() error {
	runtime.LockOSThread()
	var failed *Error
	if v.before, failed = v.calls.Current(); failed != nil {
		return v.gpu.check(failed)
	}
	v.entered = true
	err := v.gpu.check(v.calls.SetCurrent(v.gpu.context))
	v.current = err == nil
	return err
}

// leave restores the thread's context. It ignores the driver's result, which may be the
// error of work enqueued elsewhere.
func (v *visit) leave() {
	if v.entered {
		v.entered, v.current = false, false
		if v.calls.SetCurrent(v.before) != nil {
			_ = v.calls.SetCurrent(0) // so that no context remains current that may be destroyed
		}
	}
	runtime.UnlockOSThread()
}
