package device

import (
	"errors"
	"fmt"
	"sync"

	"github.com/leat-dev/leat/internal/allocated"
)

// Set opens devices by name. A device is opened once in the whole process: if two stages
// name "cpu:0-1", in one pipeline or in two, both get the same Device, and so share its
// memory and its cores.
//
// A caller of Open must not close the device. Before the set is closed, the caller must
// free its buffers and close its queues. A device is closed when the last set that opened
// it is closed. The zero Set is ready to use. Its methods may be called from any goroutine.
type Set struct {
	mu     sync.Mutex
	closed bool
	byName map[string]Device
	opened []string // the devices' own names, in order
}

// process holds the devices that any set of this process has open.
var process struct {
	mu     sync.Mutex
	byName map[string]*shared
}

// shared is an open device and the number of sets that have it open.
type shared struct {
	Device
	sets int
}

// Open returns the device that name stands for, and opens it if it is not open. The name
// must stand for exactly one device: it is the name in the device's Info, or another name
// for the same device.
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
	own := infos[0].Name // may differ from name, which can be another name for the device
	d, ok := s.byName[own]
	if !ok {
		if d, err = acquire(b, own); err != nil {
			return nil, fmt.Errorf("device %s: %w", name, err)
		}
		s.opened = append(s.opened, own)
	}
	if s.byName == nil {
		s.byName = map[string]Device{}
	}
	s.byName[own], s.byName[name] = d, d
	return d, nil
}

// Close closes the set's devices that no other set has open, in the reverse of the order
// in which they were opened, and returns their errors joined. Further calls have no effect.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := len(s.opened) - 1; i >= 0; i-- {
		errs = append(errs, release(s.opened[i]))
	}
	s.closed, s.opened, s.byName = true, nil, nil
	return errors.Join(errs...)
}

// acquire returns the process's device of that name for one more set, and opens it if no
// set has it open.
func acquire(b Backend, name string) (Device, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	d := process.byName[name]
	if d == nil {
		opened, err := b.Open(name)
		if err != nil {
			return nil, err
		}
		d = &shared{Device: opened}
		if process.byName == nil {
			process.byName = map[string]*shared{}
		}
		process.byName[name] = d
		allocated.Register(name, opened.Allocated)
	}
	d.sets++
	return d.Device, nil
}

// release undoes one acquire, and closes the device if it was the last.
func release(name string) error {
	process.mu.Lock()
	defer process.mu.Unlock()
	d := process.byName[name]
	if d.sets--; d.sets > 0 {
		return nil
	}
	delete(process.byName, name)
	allocated.Remove(name)
	return d.Close()
}
