package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// dense is a layer of a network: y = x·Wᵀ + b. A gated one has two of these, g
// and u, and y = g/(1+exp(-g)) · u (Shazeer, "GLU Variants Improve Transformer",
// 2020). It implements stage.Layer.
type dense struct {
	name    string
	in, out int
	affine  []affine // one, or two of a gated layer
}

// affine is weights [out, in] and biases [out].
type affine struct{ weights, biases []float32 }

// network is dense layers from rows of the first width to rows of the last, all
// but the last gated, with weights drawn from a seed.
func network(seed uint64, widths ...int) (layers []stage.Layer) {
	r := rand.New(rand.NewPCG(seed, 0))
	draw := func(n, in int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(in)))
		}
		return x
	}
	for i := 1; i < len(widths); i++ {
		l := &dense{name: fmt.Sprintf("dense %d", i), in: widths[i-1], out: widths[i]}
		l.affine = make([]affine, 2)
		if i == len(widths)-1 {
			l.affine = make([]affine, 1)
		}
		for j := range l.affine {
			l.affine[j] = affine{draw(l.out*l.in, l.in), draw(l.out, l.in)}
		}
		layers = append(layers, l)
	}
	return layers
}

// Name implements stage.Layer.
func (l *dense) Name() string { return l.name }

// Shape implements stage.Layer. A gated layer works on g and u before it writes y.
func (l *dense) Shape() stage.Shape {
	scratch := 0
	if l.gated() {
		scratch = 2 * l.out
	}
	return stage.Shape{Width: l.out, Scratch: scratch}
}

func (l *dense) gated() bool { return len(l.affine) == 2 }

// Cost implements stage.Layer: weights are read once a batch and multiplied once
// a row, here at 10 GB and 50 G multiply-adds a second and core.
func (l *dense) Cost(d device.Info, _ stage.Config) (c packer.Cost, err error) {
	sizes, cores := kernels.SizesFor(d.Kind), float64(max(1, len(d.Cores)))
	for range l.affine {
		for _, rows := range []int{l.out, 1} {
			cols := l.in
			if rows == 1 {
				cols = l.out // the biases are one row
			}
			bytes, err := sizes.WeightBytes(kernels.F32, rows, cols)
			if err != nil {
				return c, err
			}
			c.Weights += bytes
			c.Fixed += float64(bytes) / 10e9 / cores
			c.PerRow += float64(rows) * float64(cols) / 50e9 / cores
		}
	}
	return c, nil
}

// Load implements stage.Layer.
func (l *dense) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	r := new(runner)
	pack := func(part string, values []float32, rows, cols int) kernels.Weight {
		w, err := q.Pack(ctx, kernels.Matrix{Name: l.name + " " + part, Type: kernels.F32, Rows: rows, Cols: cols, Data: encode(values)})
		if err != nil {
			r.err = errors.Join(r.err, err)
			return nil
		}
		r.owned = append(r.owned, w)
		return w
	}
	for _, a := range l.affine {
		r.products = append(r.products, kernels.Product{W: pack("weights", a.weights, l.out, l.in)})
		r.biases = append(r.biases, pack("biases", a.biases, 1, l.out))
	}
	if r.err != nil {
		return nil, errors.Join(r.err, r.Close())
	}
	return r, nil
}

func encode(x []float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// runner is a layer on its device. What it needs in Forward is there already, so
// that a batch allocates nothing.
type runner struct {
	products []kernels.Product
	biases   []kernels.Weight
	owned    []kernels.Weight
	err      error
}

// Forward implements stage.Runner.
func (r *runner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	rest := p.Work
	for i := range r.products {
		if r.products[i].Dst = out; len(r.products) == 2 {
			r.products[i].Dst, rest = stage.Floats(rest, out.Rows, out.Cols)
		}
	}
	q.MatMul(in, r.products) // one product with both matrices reads the rows once
	for i := range r.products {
		q.AddBias(r.products[i].Dst, r.biases[i])
	}
	if len(r.products) == 2 {
		q.Gated(out, r.products[0].Dst, r.products[1].Dst, kernels.SiLU)
	}
	return nil
}

// Close implements stage.Runner.
func (r *runner) Close() error {
	var errs []error
	for _, w := range r.owned {
		errs = append(errs, w.Free())
	}
	return errors.Join(errs...)
}
