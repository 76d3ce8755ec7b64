// Mlp is a program that embeds Leat for a network of its own on cores. It sends rows
// through two stages and compares what comes out with the same sums taken by itself.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

const width, depth, rows = 4, 3, 5

// linear is a layer of the program's own: y = x·Wᵀ.
type linear struct {
	name    string
	weights []float32 // [width, width]
}

func (l linear) Name() string       { return l.name }
func (l linear) Shape() stage.Shape { return stage.Shape{Width: width} }

func (l linear) Cost(d device.Info, _ stage.Config) (packer.Cost, error) {
	bytes, err := kernels.SizesFor(d.Kind).WeightBytes(kernels.F32, width, width)
	return packer.Cost{Weights: bytes, Fixed: 1e-6, PerRow: 1e-9}, err
}

func (l linear) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	var data []byte
	for _, w := range l.weights {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(w))
	}
	w, err := q.Pack(ctx, kernels.Matrix{Name: l.name, Type: kernels.F32, Rows: width, Cols: width, Data: data})
	if err != nil {
		return nil, err
	}
	return &runner{[]kernels.Product{{W: w}}}, nil
}

type runner struct{ products []kernels.Product }

func (r *runner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	r.products[0].Dst = out
	p.Queue.MatMul(in, r.products)
	return nil
}

func (r *runner) Close() error { return r.products[0].W.Free() }

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	var network []linear
	var layers []stage.Layer
	for i := range depth {
		l := linear{name: fmt.Sprintf("linear %d", i), weights: make([]float32, width*width)}
		for j := range l.weights {
			l.weights[j] = float32((7*i+3*j)%5) - 2 // small whole numbers: every order of sums is exact
		}
		network, layers = append(network, l), append(layers, l)
	}
	p, err := pipeline.New(ctx, layers, pipeline.WithInput(width), pipeline.WithDevices(os.Args[1]))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	x := make([]float32, rows*width)
	for i := range x {
		x[i] = float32(i)
	}
	y, err := p.Do(ctx, x)
	if err != nil {
		return err
	}
	for i, want := range forward(network, x) {
		if y[i] != want {
			return fmt.Errorf("number %d is %g, it should be %g", i, y[i], want)
		}
	}
	fmt.Println("stages", len(p.Plan().Stages), "numbers", len(y))
	return nil
}

// forward is the network without Leat.
func forward(network []linear, x []float32) []float32 {
	for _, l := range network {
		y := make([]float32, len(x))
		for i := range y {
			row, col := i/width, i%width
			for k := range width {
				y[i] += x[row*width+k] * l.weights[col*width+k]
			}
		}
		x = y
	}
	return x
}
