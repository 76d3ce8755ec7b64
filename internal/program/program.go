// Package program makes a layer from a description of what it computes: a list of steps, each of
// which is one op on activations.
//
// The weights that the layer loads, its cost, its workspace and its Forward all follow from that
// list, and so are consistent. A [Program] collects the steps in the order in which they run.
// [Program.Layer] assigns the activations to locations in the workspace and returns the complete
// [stage.Layer].
//
// The package must know no architecture and no file format: package model/arch determines the
// steps of a model and the source of the matrices. A new op is a new step, which is a type of
// about ten lines that names the activations it reads and writes, and enqueues the op.
package program

import (
	"fmt"
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// Value identifies an activation of a program: a matrix of float32s with a fixed number of columns
// and a row for each row of the batch.
type Value int

// Input is the activation that the layer before this one writes. Steps may read it, but not write
// it.
const Input Value = 1

// Weight identifies a matrix that a program loads. A vector is a matrix of one row. The zero
// Weight is none.
type Weight int

// Cache identifies the memory for a program's keys and values of all positions.
type Cache int

// Program is a layer under construction. It keeps the first error and returns it from Layer, so
// that code that builds a program needs no error handling. It may be used by only one goroutine
// at a time.
type Program struct {
	name     string
	steps    []step
	values   []activation // by Value; the first is unused
	weights  []weight     // by Weight; the first is unused
	caches   []heads      // by Cache
	products int          // the number of products in all MatMuls
	outputs  bool         // whether Gather is the first step
	err      error        // the first error
}

// activation is a value's number of columns and, after layOut, its location.
type activation struct {
	cols     int
	written  bool // whether a step writes it, or it is the input
	location location
	at       int // in the workspace, the number of columns before it
}

// location is the tensor of which an activation is a part.
type location uint8

const (
	unassigned location = iota
	input
	output
	workspace
)

// weight is a matrix of a program.
type weight struct {
	matrix kernels.Matrix
	shared *Shared // nil if only this layer uses the matrix
	use    use
}

// use is what a program uses a matrix for.
type use uint8

const (
	unused  use = iota
	vector      // a step reads all of it for each row, such as a norm's gain
	product     // it is the right operand of a product
	table       // a step copies one of its rows for each row of the batch
)

// heads is the number of heads in a cache, and the number of elements in a head.
type heads struct{ count, dim int }

// New returns an empty program for a layer with that name, whose input has width columns. The
// first layer of a model has no input, and so width is 0.
func New(name string, width int) *Program {
	return &Program{
		name:    name,
		values:  []activation{{}, {cols: width, written: width > 0, location: input}},
		weights: make([]weight, 1),
	}
}

// fail sets the error, unless there is one.
func (p *Program) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s: "+format, append([]any{p.name}, args...)...)
	}
}

// Weight adds a matrix to those that the layer loads. A matrix that is added twice is loaded
// twice.
func (p *Program) Weight(m kernels.Matrix) Weight {
	p.weights = append(p.weights, weight{matrix: m})
	return Weight(len(p.weights) - 1)
}

// Shared adds a matrix that other layers also use. A program may have at most one such matrix.
func (p *Program) Shared(s *Shared) Weight {
	if slices.ContainsFunc(p.weights, func(w weight) bool { return w.shared != nil }) {
		p.fail("%s is a second shared matrix: a layer may have only one", s.matrix.Name)
	}
	p.weights = append(p.weights, weight{matrix: s.matrix, shared: s})
	return Weight(len(p.weights) - 1)
}

// Cache adds a cache for the keys and values of count heads of dim elements each.
func (p *Program) Cache(count, dim int) Cache {
	p.caches = append(p.caches, heads{count, dim})
	return Cache(len(p.caches) - 1)
}

// Cols returns the number of columns of a value.
func (p *Program) Cols(v Value) int { return p.values[v].cols }

// value returns a new activation, which the next step must write.
func (p *Program) value(cols int) Value {
	p.values = append(p.values, activation{cols: cols})
	return Value(len(p.values) - 1)
}

// matrix returns the matrix of a weight, and records its use by a step.
func (p *Program) matrix(w Weight, u use) kernels.Matrix {
	p.weights[w].use = max(p.weights[w].use, u)
	return p.weights[w].matrix
}

// add checks and appends a step.
func (p *Program) add(s step) {
	reads, writes := s.operands()
	for _, v := range reads {
		if !p.values[v].written {
			p.fail("step %d, %T, reads an activation that no step has written", len(p.steps), s)
		}
	}
	for _, v := range writes {
		if v == Input {
			p.fail("step %d, %T, writes the layer's input", len(p.steps), s)
		}
		p.values[v].written = true
	}
	p.steps = append(p.steps, s)
}

// sameCols checks that two operands of an op have the same number of columns.
func (p *Program) sameCols(op string, a, b Value) {
	if p.Cols(a) != p.Cols(b) {
		p.fail("%s of %d and %d columns: the numbers must be equal", op, p.Cols(a), p.Cols(b))
	}
}

// Layer returns the program as a layer whose output is out. The program must not be modified
// afterwards. An error means that the program is wrong, not that a file is.
func (p *Program) Layer(out Value) (stage.Layer, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case out == Input || !p.values[out].written:
		return nil, fmt.Errorf("%s: no step writes the layer's output", p.name)
	}
	l := &layer{program: p, shape: stage.Shape{Width: p.Cols(out), Outputs: p.outputs}}
	l.shape.Scratch = p.layOut(out)
	for _, w := range p.weights[1:] {
		if w.use == unused {
			return nil, fmt.Errorf("%s: no step uses %s", p.name, w.matrix.Name)
		}
		if w.use == product && w.matrix.Type.Quantized() {
			l.shape.Quantized = max(l.shape.Quantized, w.matrix.Cols)
		}
	}
	return l, nil
}

// layOut assigns a location to every value, and returns the number of columns of workspace that
// the program needs. The value out is always in the layer's output tensor. Every other value is
// in the workspace from the step that first writes it to the last step that reads or writes it,
// at the lowest column at which it doesn't overlap other values of that time.
func (p *Program) layOut(out Value) (scratch int) {
	last := make([]int, len(p.values))
	for i, s := range p.steps {
		reads, writes := s.operands()
		for _, v := range slices.Concat(reads, writes) {
			last[v] = i
		}
	}
	p.values[out].location = output
	var live []Value
	for i, s := range p.steps {
		_, writes := s.operands()
		for _, v := range writes {
			if p.values[v].location != unassigned {
				continue
			}
			p.values[v].location = workspace
			p.values[v].at = p.fit(live, p.Cols(v))
			scratch = max(scratch, p.values[v].at+p.Cols(v))
			live = append(live, v)
		}
		live = slices.DeleteFunc(live, func(v Value) bool { return last[v] == i })
	}
	return scratch
}

// fit returns the lowest column from which on cols columns don't overlap the live values.
func (p *Program) fit(live []Value, cols int) (at int) {
	sorted := slices.SortedFunc(slices.Values(live), func(a, b Value) int { return p.values[a].at - p.values[b].at })
	for _, v := range sorted {
		if at+cols <= p.values[v].at {
			break
		}
		at = p.values[v].at + p.Cols(v)
	}
	return at
}
