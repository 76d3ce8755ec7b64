package simulated

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Layer is a layer of a language model whose output depends on all tokens before. At position p it
// is
//
//	y[p] = (17·y[p−1] + 29·x[p] + 5) mod 65521
//
// where x is the input or, in the first layer, the token, and y[−1] is 0. The layer keeps y in the
// pages that the scheduler assigns, and reads y[p−1] there, so that all following tokens are wrong
// if a page belongs to another sequence or was not computed. The last layer's logits are 1 at
// y mod Vocab and 0 elsewhere.
type Layer struct {
	Called string
	Vocab  int           // the number of logits; 0 if it is not the last layer
	Fixed  time.Duration // the time for which a batch occupies the device, independent of its rows
	PerRow time.Duration // the additional time for each row

	Loading func(q kernels.Queue) error // if not nil, called when it is loaded
	Before  func(p *stage.Pass) error   // if not nil, called at the beginning of Forward
}

const (
	history = 17
	input   = 29
	step    = 5
	prime   = 65521 // the largest prime below 2¹⁶, so that all numbers are exact as float32s
)

// Model returns a model of n layers, whose Fixed and PerRow are the results of times. Continue
// returns the tokens that it generates.
func Model(n, vocab int, times func(layer int) (fixed, perRow time.Duration)) []*Layer {
	layers := make([]*Layer, n)
	for i := range layers {
		l := &Layer{Called: fmt.Sprintf("block %d", i)}
		l.Fixed, l.PerRow = times(i)
		layers[i] = l
	}
	layers[n-1].Vocab = vocab
	return layers
}

// Continue returns the n tokens that a Model of that many layers generates after a prompt with
// greedy sampling.
func Continue(layers, vocab int, prompt []int32, n int) (added []int32) {
	last := make([]uint32, layers) // y of the position before
	var x uint32
	for p := 0; len(added) < n; p++ {
		if p < len(prompt) {
			x = uint32(prompt[p])
		} else {
			x = uint32(added[p-len(prompt)])
		}
		for i := range last {
			x = next(last[i], x)
			last[i] = x
		}
		if p >= len(prompt)-1 {
			added = append(added, int32(x%uint32(vocab)))
		}
	}
	return added
}

func next(before, x uint32) uint32 { return (history*before + input*x + step) % prime }

// Name implements stage.Layer.
func (l *Layer) Name() string { return l.Called }

// Shape implements stage.Layer.
func (l *Layer) Shape() stage.Shape {
	return stage.Shape{Width: max(1, l.Vocab), Outputs: l.Vocab > 0}
}

// Cost implements stage.Layer.
func (l *Layer) Cost(_ device.Info, c stage.Config) (packer.Cost, error) {
	return packer.Cost{State: state(c), Fixed: l.Fixed.Seconds(), PerRow: l.PerRow.Seconds()}, nil
}

func state(c stage.Config) int64 { return int64(c.Pages) * kernels.PageTokens * 4 }

// Load implements stage.Layer.
func (l *Layer) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	if l.Loading != nil {
		if err := errors.Join(l.Loading(q), q.Err(), ctx.Err()); err != nil {
			return nil, err
		}
	}
	pages, err := q.Device().Alloc(state(c))
	if err != nil {
		return nil, err
	}
	return &runner{Layer: l, pages: pages}, nil
}

type runner struct {
	*Layer
	pages device.Buffer
}

// Forward implements stage.Runner.
func (r *runner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	if r.Before != nil {
		if err := r.Before(p); err != nil || q.Err() != nil {
			return err
		}
	}
	q.(*queue).occupy(r.Fixed + time.Duration(p.Rows.N)*r.PerRow)
	h, kept := p.Header, words[uint32](r.pages.Bytes())
	at := func(row, position int) *uint32 {
		page := int(h.Pages[int(h.Tables[row])+position/kernels.PageTokens]) + p.Rows.Base
		return &kept[page*kernels.PageTokens+position%kernels.PageTokens]
	}
	y := floats(out)
	outputs := h.Outputs
	for row, token := range h.Tokens {
		x, before, position := uint32(token), uint32(0), int(h.Positions[row])
		if in.Buf != nil {
			x = uint32(floats(in)[row])
		}
		if position > 0 {
			before = *at(row, position-1)
		}
		now := next(before, x)
		*at(row, position) = now
		switch {
		case r.Vocab == 0:
			y[row] = float32(now)
		case len(outputs) > 0 && int(outputs[0]) == row:
			logits := y[:r.Vocab]
			clear(logits)
			logits[now%uint32(r.Vocab)] = 1
			y, outputs = y[r.Vocab:], outputs[1:]
		}
	}
	return nil
}

// Close implements stage.Runner.
func (r *runner) Close() error { return r.pages.Free() }

func floats(t kernels.Tensor) []float32 {
	return words[float32](t.Buf.Bytes()[t.Off:][:t.Bytes()])
}

func words[T uint32 | int32 | float32](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/4)
}
