package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// rope is the work of one RoPE; its unit is a row.
//
// A row's cosines and sines are kept: queries and keys of every layer turn by
// the same.
type rope struct {
	kern      *panel.Kernels
	x         []float32
	positions []int32
	n, cols   int
	headDim   int
	split     bool
	parts     int

	freq    []float32
	factors []float32 // for each row, its cosines, then its sines
	of      []int32   // for each row, the position that they are of; -1: none
	turns   scratch   // holds factors
}

func (q *queue) RoPE(x kernels.Tensor, r kernels.Rotation, rows kernels.Rows) {
	if q.Failed() {
		return
	}
	a := args{op: "RoPE"}
	j := &q.rope
	h := a.header(rows, x.Rows)
	j.x = a.floats("x", x, x.Rows, x.Cols)
	freq := a.vector("the frequencies", r.Frequencies, -1)
	j.positions, j.n, j.cols, j.headDim, j.split = h.positions, x.Rows, x.Cols, r.HeadDim, r.Split
	if j.headDim <= 0 || j.cols%j.headDim != 0 {
		a.fail("x has %d columns, which are not whole heads of %d", j.cols, j.headDim)
	}
	if 2*len(freq) > j.headDim {
		a.fail("%d frequencies turn %d elements, a head has %d", len(freq), 2*len(freq), j.headDim)
	}
	for i, p := range j.positions {
		if p < 0 {
			a.fail("row %d is at position %d", i, p)
		}
	}
	if !q.ready(&a) || j.n == 0 {
		return
	}
	if err := j.keep(q, freq); err != nil {
		q.Fail(fmt.Errorf("RoPE: %w", err))
		return
	}
	j.parts = parts(j.n, float64(j.n)*(20*float64(len(freq))+float64(j.cols)/4))
	q.Parallel(j.parts, j)
}

// keep makes room for every row's factors, and forgets those of other
// frequencies.
func (j *rope) keep(q *queue, freq []float32) error {
	if j.n <= len(j.of) && slices.Equal(freq, j.freq) {
		return nil
	}
	rows := max(j.n, len(j.of))
	j.of = j.of[:0] // none, where there is no room
	mem, err := j.turns.take(q.Device(), 8*int64(len(freq))*int64(rows))
	if err != nil {
		return err
	}
	j.factors = float32s(mem)
	j.freq = append(j.freq[:0], freq...)
	for range rows {
		j.of = append(j.of, -1)
	}
	return nil
}

// Do turns a span of the rows. The angle is taken in float64: at position
// 100000 a float32 would be off by a hundredth of a radian.
func (j *rope) Do(part, _ int) {
	pairs := len(j.freq)
	from, to := span(part, j.parts, j.n)
	for r := from; r < to; r++ {
		cos, sin := j.factors[2*r*pairs:][:pairs], j.factors[(2*r+1)*pairs:][:pairs]
		if p := j.positions[r]; j.of[r] != p {
			for i, f := range j.freq {
				s, c := math.Sincos(float64(p) * float64(f))
				sin[i], cos[i] = float32(s), float32(c)
			}
			j.of[r] = p
		}
		for at := r * j.cols; at < (r+1)*j.cols; at += j.headDim {
			head := j.x[at:][:2*pairs]
			if j.split {
				j.kern.RotateHalves(head, cos, sin)
			} else {
				j.kern.RotatePairs(head, cos, sin)
			}
		}
	}
}
