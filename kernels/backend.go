package kernels

import (
	"fmt"
	"sync"

	"github.com/leat-dev/leat/device"
)

// Backend is the op set on one kind of device, as a sub-package registers it.
type Backend interface {
	Kind() device.Kind

	// NewQueue returns a queue of d with the op set.
	NewQueue(d device.Device) (Queue, error)

	Sizes
}

var (
	backendsMu sync.RWMutex
	backends   = map[device.Kind]Backend{}
)

// Register adds a backend. A sub-package calls it when it is imported; a kind
// registered twice is a mistake in the program, and panics.
func Register(b Backend) {
	backendsMu.Lock()
	defer backendsMu.Unlock()
	if _, twice := backends[b.Kind()]; twice {
		panic("kernels: backend registered twice: " + b.Kind().String())
	}
	backends[b.Kind()] = b
}

// For returns the op set of a kind of device. Where the program doesn't import one,
// the error says what to import.
func For(k device.Kind) (Backend, error) {
	backendsMu.RLock()
	defer backendsMu.RUnlock()
	if b, ok := backends[k]; ok {
		return b, nil
	}
	if path := device.ImportPath(k); path != "" {
		return nil, fmt.Errorf("this program has no kernels for %s devices: it must import %q", k, path)
	}
	return nil, fmt.Errorf("this program has no kernels for %s devices", k)
}
