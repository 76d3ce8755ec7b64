//go:build amd64 || arm64

package emulator

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// driver is the library that the process has loaded. It is never unloaded, because package cuda
// doesn't unload it either.
var driver loaded

type loaded struct {
	sync.Mutex
	configureCall, reportsCall uintptr
}

func (l *loaded) load(path string) error {
	l.Lock()
	defer l.Unlock()
	if l.reportsCall != 0 {
		return nil
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("load the emulated driver: %w", err)
	}
	if l.configureCall, err = purego.Dlsym(handle, "leatEmulatorConfigure"); err != nil {
		return fmt.Errorf("%s is no emulated driver: %w", path, err)
	}
	if l.reportsCall, err = purego.Dlsym(handle, "leatEmulatorReports"); err != nil {
		return fmt.Errorf("%s is no emulated driver: %w", path, err)
	}
	return nil
}

// configure makes the driver emulate a new machine. It returns 1 if a context is still retained, and
// 2 if the text can't be parsed.
func (l *loaded) configure(text string) int32 {
	l.Lock()
	defer l.Unlock()
	zeroed := append([]byte(text), 0)
	r, _, _ := purego.SyscallN(l.configureCall, uintptr(unsafe.Pointer(&zeroed[0])))
	return int32(r)
}

// takeReports moves the reports to the buffer and returns how many there were.
func (l *loaded) takeReports(buffer []byte) int32 {
	l.Lock()
	defer l.Unlock()
	if l.reportsCall == 0 {
		return 0
	}
	r, _, _ := purego.SyscallN(l.reportsCall, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	return int32(r)
}
