package layers_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// A network that says whether two numbers are unlike (the exclusive or), in two stages.
func Example() {
	ctx := context.Background()
	hidden, err := layers.NewDense("hidden", 2, 2,
		[]float32{1, 1, 1, 1}, // [out, in]
		[]float32{0, -1}, kernels.ReLU)
	if err != nil {
		log.Fatal(err)
	}
	output, err := layers.NewDense("output", 2, 1, []float32{1, -2}, nil, layers.Linear)
	if err != nil {
		log.Fatal(err)
	}
	p, err := pipeline.New(ctx, []stage.Layer{hidden, output}, pipeline.WithInput(2), pipeline.WithDevices("cpu/2"))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	y, err := p.Do(ctx, []float32{0, 0, 0, 1, 1, 0, 1, 1}) // four rows
	fmt.Println(y, err)
	// Output: [0 1 1 0] <nil>
}

// compute sends rows through one layer.
func compute(l stage.Layer, x ...float32) []float32 {
	ctx := context.Background()
	p, err := pipeline.New(ctx, []stage.Layer{l}, pipeline.WithInput(l.Shape().Input), pipeline.WithDevices("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	y, err := p.Do(ctx, x)
	if err != nil {
		log.Fatal(err)
	}
	return y
}

func ExampleNewDense() {
	l, err := layers.NewDense("layer", 3, 2,
		[]float32{
			1, 2, 3, // what the first number of a result is made of
			4, 5, 6,
		},
		[]float32{-20, 0}, kernels.ReLU)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(compute(l, 1, 1, 1), compute(l, 10, 10, 10))

	_, err = layers.NewDense("layer", 3, 2, []float32{1, 2, 3}, nil, layers.Linear)
	fmt.Println(err)
	// Output:
	// [0 15] [40 150]
	// layer weights: 3 values for a matrix of shape [2, 3]: it has 6
}

// Weights of other types come as a file has them.
func ExampleDenseFromMatrix() {
	one, half := []byte{0x80, 0x3f}, []byte{0, 0x3f} // BF16 is the upper half of a float32
	w := kernels.Matrix{Type: kernels.BF16, Rows: 1, Cols: 2, Data: append(one, half...)}
	l, err := layers.DenseFromMatrix("layer", w, kernels.Matrix{}, layers.Linear)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(compute(l, 3, 5))
	// Output: [5.5]
}

func ExampleNewRowFunc() {
	norm, err := layers.NewRowFunc("norm", 2, 2, func(dst, src []float32) error {
		length := math.Hypot(float64(src[0]), float64(src[1]))
		if length == 0 {
			return errors.New("a row without a direction")
		}
		for i, v := range src {
			dst[i] = v / float32(length)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(compute(norm, 3, 4))
	// Output: [0.6 0.8]
}

func ExampleNewBatchFunc() {
	sum, err := layers.NewBatchFunc("sum", 2, 1, func(dst, src []float32, rows int) error {
		for i := range rows {
			dst[i] = src[2*i] + src[2*i+1]
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(compute(sum, 1, 2, 3, 4))
	// Output: [3 7]
}

// residual is a layer of one's own: y = x + relu(x·Wᵀ).
type residual struct {
	name    string
	weights kernels.Matrix // square
}

func (l residual) Name() string { return l.name }

func (l residual) Shape() stage.Shape {
	return stage.Shape{Input: l.weights.Cols, Width: l.weights.Rows}
}

func (l residual) Cost(d device.Info, _ stage.Config) (packer.Cost, error) {
	return layers.Cost(d, l.weights)
}

func (l residual) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	w, err := q.Pack(ctx, l.weights)
	if err != nil {
		return nil, err
	}
	return &residualRunner{[]kernels.Product{{W: w}}}, nil
}

type residualRunner struct{ product []kernels.Product }

func (r *residualRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	r.product[0].Dst = out
	p.Queue.MatMul(in, r.product)
	p.Queue.Activate(out, out, kernels.ReLU)
	p.Queue.Add(out, in)
	return nil
}

func (r *residualRunner) Close() error { return r.product[0].W.Free() }

// A layer of one's own, here y = x + relu(x·Wᵀ), has its weight from Matrix and its cost
// from Cost, and runs on every kind of device.
func ExampleCost() {
	w, err := layers.Matrix("weights", 2, 2, []float32{0, 1, -1, 0})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(compute(residual{"residual", w}, 3, 5))
	// Output: [8 5]
}

func ExampleFloats() {
	file := []byte{0, 0, 128, 63, 0, 0, 0, 64} // two weights
	w, err := layers.Floats(file)
	fmt.Println(w, err)
	// Output: [1 2] <nil>
}

func ExampleBytes() {
	fmt.Println(layers.Bytes([]float32{1, 2}))
	// Output: [0 0 128 63 0 0 0 64]
}
