// Package program makes a layer from a description of what it computes: a short
// list of steps, each one op over named activations.
//
// The list is stated once. The weights that the layer loads, what it costs, the
// workspace that it needs and its Forward all follow from it, so that none of
// them can disagree. A [Program] collects the steps in the order in which they
// run; [Program.Layer] lays the activations out in the workspace and returns the
// finished [stage.Layer].
//
// The package knows no architecture and no file format: package model/arch says
// what the steps of a model are, and where the matrices come from. A new op is a
// new step, a type of about ten lines in steps.go or beside it: it names what it
// reads and writes, and enqueues the op.
package program

import (
	"fmt"
	"slices"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// Value is an activation of a program: a row of a fixed number of float32s for
// each row of the batch.
type Value int

// Input is the activation that the layer before this one hands on. Steps read
// it and never write it.
const Input Value = 1

// Weight is a matrix that a program loads, or a vector, which is a matrix of one
// row. The zero Weight is none.
type Weight int

// Cache is the keys and values that a program keeps of every position.
type Cache int

// Program is a layer in the making. It keeps the first mistake that it is asked
// for and reports it in Layer, so that a program reads as a list of its steps.
type Program struct {
	name     string
	steps    []step
	values   []activation // by Value; the first is none
	weights  []weight     // by Weight; the first is none
	caches   []heads      // by Cache
	products int          // most of one MatMul
	outputs  bool         // Gather is the first step
	err      error
}

// activation is a value: its columns, and where it lies once the program is
// laid out.
type activation struct {
	cols    int
	written bool
	place   place
	at      int // in the workspace: columns before it
}

type place uint8

const (
	nowhere place = iota // not laid out yet
	input
	output
	workspace
)

// weight is a matrix of the layer's own, or one that it shares with others.
type weight struct {
	matrix kernels.Matrix
	shared *Shared
	use    use
}

type use uint8

const (
	unused  use = iota
	vector      // read by a step for every row, such as a norm's gain
	product     // the right side of a product
	table       // one row of it is copied for each row
)

type heads struct{ count, dim int }

// New returns an empty program for a layer of that name whose input has width
// columns. The first layer of a model has no input: its width is 0.
func New(name string, width int) *Program {
	return &Program{
		name:    name,
		values:  []activation{{}, {cols: width, written: width > 0, place: input}},
		weights: make([]weight, 1),
	}
}

func (p *Program) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s: "+format, append([]any{p.name}, args...)...)
	}
}

// Weight adds a matrix that Load puts on the device. Two calls with the same
// matrix load it twice.
func (p *Program) Weight(m kernels.Matrix) Weight {
	p.weights = append(p.weights, weight{matrix: m})
	return Weight(len(p.weights) - 1)
}

// Shared adds a matrix that other layers use too. A program may share one.
func (p *Program) Shared(s *Shared) Weight {
	if slices.ContainsFunc(p.weights, func(w weight) bool { return w.shared != nil }) {
		p.fail("a second shared matrix, %s", s.matrix.Name)
	}
	p.weights = append(p.weights, weight{matrix: s.matrix, shared: s})
	return Weight(len(p.weights) - 1)
}

// Cache adds the keys and values of count heads of dim elements each.
func (p *Program) Cache(count, dim int) Cache {
	p.caches = append(p.caches, heads{count, dim})
	return Cache(len(p.caches) - 1)
}

// Cols returns the number of columns of a value.
func (p *Program) Cols(v Value) int { return p.values[v].cols }

// value makes an activation that the next step writes.
func (p *Program) value(cols int) Value {
	p.values = append(p.values, activation{cols: cols})
	return Value(len(p.values) - 1)
}

// matrix returns the matrix of a weight, and records what a step uses it for.
func (p *Program) matrix(w Weight, u use) kernels.Matrix {
	p.weights[w].use = max(p.weights[w].use, u)
	return p.weights[w].matrix
}

// add appends a step, after checks that every step must pass.
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

// same checks that two values have the same width.
func (p *Program) same(op string, a, b Value) {
	if p.Cols(a) != p.Cols(b) {
		p.fail("%s of %d and %d columns", op, p.Cols(a), p.Cols(b))
	}
}

// Layer lays the program out and returns it as a layer that hands out on. The
// program must not be changed after that. An error is a mistake in the program,
// not in a file.
func (p *Program) Layer(out Value) (stage.Layer, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case out == Input || !p.values[out].written:
		return nil, fmt.Errorf("%s: no step writes what the layer hands on", p.name)
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

// layOut gives every value its place and returns the columns of workspace that
// the program needs. What is handed on lies in the layer's output from its first
// step on. Every other value lies in the workspace from the step that first
// writes it to the last that reads or writes it, at the lowest place that no
// value of that time has.
func (p *Program) layOut(out Value) (scratch int) {
	last := make([]int, len(p.values))
	for i, s := range p.steps {
		reads, writes := s.operands()
		for _, v := range slices.Concat(reads, writes) {
			last[v] = i
		}
	}
	p.values[out].place = output
	var live []Value
	for i, s := range p.steps {
		_, writes := s.operands()
		for _, v := range writes {
			if p.values[v].place != nowhere {
				continue
			}
			p.values[v].place = workspace
			p.values[v].at = p.fit(live, p.Cols(v))
			scratch = max(scratch, p.values[v].at+p.Cols(v))
			live = append(live, v)
		}
		live = slices.DeleteFunc(live, func(v Value) bool { return last[v] == i })
	}
	return scratch
}

// fit returns the lowest column at which cols columns lie beside the live values.
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
