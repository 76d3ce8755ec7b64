package cpu

import (
	"fmt"

	"github.com/leat-dev/leat/device"
)

// partTime is about how long one part of an op should take, in nanoseconds:
// long enough that handing it over costs nothing beside it, short enough that
// workers end together.
const partTime = 25_000

// parts returns into how many parts to cut units of work that take ns
// nanoseconds in all. Work that is barely two parts stays with the caller.
func parts(units int, ns float64) int {
	n := units
	if f := ns / partTime; f < float64(units) {
		n = int(f)
	}
	if n < 2 {
		return 1
	}
	return n
}

// span returns the units that one part of parts has.
func span(part, parts, units int) (from, to int) {
	each, more := units/parts, units%parts
	from = part*each + min(part, more)
	to = from + each
	if part < more {
		to++
	}
	return from, to
}

// scratch is device memory that an op keeps from call to call. It grows when a
// larger batch comes, and never shrinks.
type scratch struct {
	buf device.Buffer
	mem []byte
}

// take returns the scratch's first bytes, whatever is in them.
func (s *scratch) take(d device.Device, bytes int64) ([]byte, error) {
	if bytes <= int64(len(s.mem)) {
		return s.mem[:bytes], nil
	}
	if err := s.free(); err != nil {
		return nil, err
	}
	buf, err := d.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("scratch memory: %w", err)
	}
	s.buf, s.mem = buf, buf.Bytes()
	return s.mem[:bytes], nil
}

func (s *scratch) free() error {
	if s.buf == nil {
		return nil
	}
	err := s.buf.Free()
	s.buf, s.mem = nil, nil
	return err
}
