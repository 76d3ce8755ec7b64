package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

// gpu is a GPU and its context, the one that all users of it in a process share. The
// driver counts them.
type gpu struct {
	driver  Driver
	name    string // "cuda:1"
	handle  int32  // the driver's of the GPU
	context uintptr

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

// retain takes part in a GPU's context, until release.
func retain(d Driver, name string, handle int32) (*gpu, error) {
	g := &gpu{driver: d, name: name, handle: handle}
	var err *Error
	g.context, err = d.Calls().Retain(handle)
	return g, g.named(err)
}

func (g *gpu) release() error { return g.check(g.driver.Calls().Release(g.handle)) }

// named is the error of a call as one of the GPU's, nil if there is none.
func (g *gpu) named(e *Error) error {
	if e == nil {
		return nil
	}
	e.Device = g.name
	return e
}

// check is named, and notes whether the GPU is lost.
func (g *gpu) check(e *Error) error {
	if e != nil && e.Lost {
		g.lost.CompareAndSwap(nil, &lostError{g.name, e})
	}
	return g.named(e)
}

// lose counts the GPU as lost, if there is an error.
func (g *gpu) lose(err error) {
	if e := (*Error)(nil); errors.As(err, &e) {
		g.lost.CompareAndSwap(nil, &lostError{g.name, e})
	}
}

// Lost is the error of a GPU that was lost, nil while it isn't.
func (g *gpu) Lost() error {
	if e := g.lost.Load(); e != nil {
		return e
	}
	return nil
}

// same says that both are one GPU.
func (g *gpu) same(other *gpu) bool { return g.driver == other.driver && g.handle == other.handle }

// memory returns the GPU's bytes that are free, and all of them.
func (g *gpu) memory() (free, total int64, err error) {
	v := g.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return 0, 0, err
	}
	free, total, failed := v.calls.MemInfo()
	return free, total, g.check(failed)
}

// visit is a goroutine's time on a GPU: from enter to leave it is locked to its
// thread, and the GPU's context is the thread's current one. Visits of one goroutine
// may nest. Entering and leaving allocate nothing.
type visit struct {
	calls   Calls
	gpu     *gpu
	before  uintptr // the context that was current
	entered bool
	current bool // the GPU's context is the thread's
}

func (g *gpu) visit() *visit { return &visit{calls: g.driver.Calls(), gpu: g} }

// enter begins the visit. Whether it fails or not, leave must follow.
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

// leave puts the thread back as it was. What the call returns says nothing about
// the visit.
func (v *visit) leave() {
	if v.entered {
		v.entered, v.current = false, false
		if v.calls.SetCurrent(v.before) != nil {
			_ = v.calls.SetCurrent(0) // so that none stays that may be destroyed
		}
	}
	runtime.UnlockOSThread()
}
