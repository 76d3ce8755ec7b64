package driver

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/leat-dev/leat/device"
)

// Program is a module of the driver. It implements device.Program.
type Program struct {
	device *Device
	module uintptr

	mu        sync.Mutex
	functions map[string]*Function
}

// Function is a kernel. It implements device.Function.
type Function struct {
	device  *Device
	name    string
	handle  uintptr
	threads uint32 // the maximum in a block
}

// Name returns the kernel's name in the program.
func (f *Function) Name() string { return f.name }

// Load compiles and loads a program's image. If the driver has the compiled program in its
// cache, it doesn't compile it again. The error includes the messages of the driver's
// compiler.
func (d *Device) Load(image []byte) (device.Program, error) {
	key := sha256.Sum256(image)
	if err := d.use("a program"); err != nil {
		return nil, err
	}
	p, err := d.load(key, image)
	if e := d.drop(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// load holds d.loading while it compiles, so that a program is compiled only once even if
// several queues need it at the same time. The compilation can't be cancelled.
func (d *Device) load(key [sha256.Size]byte, image []byte) (*Program, error) {
	d.loading.Lock()
	defer d.loading.Unlock()
	if p := d.programs[key]; p != nil {
		return p, nil
	}
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return nil, err
	}
	module, failed := v.calls.ModuleLoad(image)
	if err := d.check(failed); err != nil {
		return nil, err
	}
	p := &Program{device: d, module: module, functions: map[string]*Function{}}
	d.programs[key] = p
	return p, nil
}

// Function returns the kernel with that name, ready to be launched.
func (p *Program) Function(name string) (device.Function, error) {
	d := p.device
	if err := d.use("the function " + name); err != nil {
		return nil, err
	}
	f, err := p.function(name)
	if e := d.drop(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (p *Program) function(name string) (*Function, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.functions[name]; f != nil {
		return f, nil
	}
	d := p.device
	v := d.visit()
	defer v.leave()
	if err := v.enter(); err != nil {
		return nil, err
	}
	handle, threads, failed := v.calls.ModuleFunction(p.module, name)
	if failed != nil {
		failed.Detail = fmt.Sprintf("%q", name)
		return nil, d.check(failed)
	}
	f := &Function{device: d, name: name, handle: handle, threads: uint32(threads)}
	p.functions[name] = f
	return f, nil
}
