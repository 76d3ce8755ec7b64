package device

import (
	"errors"
	"fmt"
	"sync"
)

// Set opens devices by name, each once, and shares them among all who ask: two
// stages on "cpu:0-1" get one device, and so share its memory and its cores.
//
// The set owns the devices: who got one from Open doesn't close it, and frees
// buffers and closes queues before Close. The zero Set is empty and ready. Its
// methods may be called from any goroutine.
type Set struct {
	mu     sync.Mutex
	closed bool
	byName map[string]Device
	opened []Device // in order
}

// Open returns the device of that name, opened at the first call. The name
// stands for one device: Resolve's Info.Name, or another that means the same.
func (s *Set) Open(name string) (Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("device %s: its set is closed", name)
	}
	if d, ok := s.byName[name]; ok {
		return d, nil
	}
	b, infos, err := resolve(name, 0)
	if err != nil {
		return nil, err
	}
	if len(infos) != 1 {
		return nil, fmt.Errorf("device %s: the name stands for %d devices: open one of them", name, len(infos))
	}
	own := infos[0].Name // where the name asked for is another for the same device
	d, ok := s.byName[own]
	if !ok {
		if d, err = b.Open(own); err != nil {
			return nil, fmt.Errorf("device %s: %w", name, err)
		}
		s.opened = append(s.opened, d)
	}
	if s.byName == nil {
		s.byName = map[string]Device{}
	}
	s.byName[own], s.byName[name] = d, d
	return d, nil
}

// Close closes the devices, last opened first, and returns their errors joined.
// A second Close does nothing.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := len(s.opened) - 1; i >= 0; i-- {
		errs = append(errs, s.opened[i].Close())
	}
	s.closed, s.opened, s.byName = true, nil, nil
	return errors.Join(errs...)
}
