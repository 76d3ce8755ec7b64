package cuda

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/leat-dev/leat/device"
)

// Program is a module that the driver has loaded. It implements device.Program.
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
	threads uint32 // the most that a block of it may have
}

// Name returns the kernel's name in the program.
func (f *Function) Name() string { return f.name }

// Load compiles a program's PTX, or finds it in the driver's cache of what was
// compiled before. The error has what the driver's compiler said.
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

// compilerLog is where the driver's compiler says what is wrong. The driver finds text
// by its address in values, so it is all one object, on the heap.
type compilerLog struct {
	options [2]int32
	values  [2]uintptr
	text    [8 << 10]byte
}

// load holds the lock while it compiles, so that two queues made at once compile
// once. The driver can't be stopped.
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
	text := append(image[:len(image):len(image)], 0) // PTX ends with a 0
	log := new(compilerLog)
	log.options = [...]int32{jitErrorLog, jitErrorLogBytes}
	log.values = [...]uintptr{uintptr(unsafe.Pointer(&log.text)), uintptr(len(log.text))}
	p := &Program{device: d, functions: map[string]*Function{}}
	code := v.fill(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&p.module)), uintptr(unsafe.Pointer(unsafe.SliceData(text))),
		uintptr(len(log.options)), uintptr(unsafe.Pointer(&log.options)), uintptr(unsafe.Pointer(&log.values)))
	runtime.KeepAlive(log)
	if code != success {
		said := strings.Join(strings.Fields(until0(log.text[:])), " ")
		return nil, d.note(d.driver.fault(d.name, cuModuleLoadDataEx, code, said))
	}
	d.programs[key] = p
	return p, nil
}

// Function returns the kernel of that name, ready to be launched.
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
	f := &Function{device: d, name: name}
	text := append([]byte(name), 0)
	code := v.fill(cuModuleGetFunction, uintptr(unsafe.Pointer(&f.handle)), p.module, uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	if code != success {
		return nil, d.note(d.driver.fault(d.name, cuModuleGetFunction, code, fmt.Sprintf("%q", name)))
	}
	// A driver that loads lazily has loaded the function by now, so that no launch has
	// to wait for that: it couldn't say this of one that isn't.
	var threads int32
	code = v.fill(cuFuncGetAttribute, uintptr(unsafe.Pointer(&threads)), functionMaxThreads, f.handle)
	if err := d.check(cuFuncGetAttribute, code); err != nil {
		return nil, err
	}
	f.threads = uint32(threads)
	p.functions[name] = f
	return f, nil
}
