package device

import (
	"errors"
	"fmt"
	"sync"

	"github.com/leat-dev/leat/internal/allocated"
)

// Set opens devices by name, each once, and shares them among all who ask, in
// the whole process: two stages on "cpu:0-1", of one pipeline or of two, get one
// device, and so share its memory and its cores.
//
// Who got a device from Open doesn't close it, and frees buffers and closes
// queues before the set's Close. A device is closed with the last set that
// opened it. The zero Set is empty and ready. Its methods may be called from any
// goroutine.
type Set struct {
	mu     sync.Mutex
	closed bool
	byName map[string]Device
	opened []string // the devices' own names, in order
}

// process has the devices that are open, for all sets.
var process struct {
	mu     sync.Mutex
	byName map[string]*lease
}

// lease is a device and how many sets have it open.
type lease struct {
	Device
	sets int
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
		if d, err = rent(b, own); err != nil {
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

// Close closes the devices that no other set has open, last opened first, and
// returns their errors joined. A second Close does nothing.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := len(s.opened) - 1; i >= 0; i-- {
		errs = append(errs, giveBack(s.opened[i]))
	}
	s.closed, s.opened, s.byName = true, nil, nil
	return errors.Join(errs...)
}

// rent returns the process's device of that name, opened if it isn't.
func rent(b Backend, name string) (Device, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	l := process.byName[name]
	if l == nil {
		d, err := b.Open(name)
		if err != nil {
			return nil, err
		}
		l = &lease{Device: d}
		if process.byName == nil {
			process.byName = map[string]*lease{}
		}
		process.byName[name] = l
		allocated.Register(name, d.Allocated)
	}
	l.sets++
	return l.Device, nil
}

func giveBack(name string) error {
	process.mu.Lock()
	defer process.mu.Unlock()
	l := process.byName[name]
	if l.sets--; l.sets > 0 {
		return nil
	}
	delete(process.byName, name)
	allocated.Remove(name)
	return l.Close()
}
