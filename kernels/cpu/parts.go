package cpu

import (
	"fmt"

	"github.com/leat-dev/leat/device"
)

// partTime is about how long one part of an op should take, in nanoseconds:
// long enough that handing it over costs little beside it, short enough that
// workers end together.
const partTime = 8_000

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

// guided cuts units of equal work into spans that get shorter and shorter, as guided
// self-scheduling has it (Polychronopoulos and Kuck, 1987): each is half of what a
// worker has left to do on average. So a worker works on neighbours for long, which
// finds in the cache what was fetched ahead, and workers still end together.
type guided struct{ units, least, workers int }

// newGuided cuts units of work that take ns nanoseconds in all; work that is barely two
// parts is one span.
func newGuided(units int, ns float64, workers int) guided {
	g := guided{units, max(1, units), workers}
	if n := parts(units, ns); n > 1 {
		g.least = max(1, int(float64(units)*leastTime/ns))
	}
	return g
}

// leastTime is about how long the shortest span of guided takes, in nanoseconds.
const leastTime = 3_000

// next returns how many of the units left the next span has.
func (g guided) next(left int) int {
	return min(left, max(g.least, (left+2*g.workers-1)/(2*g.workers)))
}

// parts returns the number of spans.
func (g guided) parts() (n int) {
	for left := g.units; left > 0; n++ {
		left -= g.next(left)
	}
	return n
}

// span returns the units that one part has.
func (g guided) span(part int) (from, to int) {
	left := g.units
	for range part {
		left -= g.next(left)
	}
	from = g.units - left
	return from, from + g.next(left)
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
