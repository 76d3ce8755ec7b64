// Mlp is a program that embeds Leat for a network of its own on cores. It sends rows
// through two stages and compares what comes out with the same sums taken by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

const width, depth, rows = 4, 3, 5

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	var weights [][]float32 // of each dense layer, [width, width]
	var network []stage.Layer
	for i := range depth {
		w := make([]float32, width*width)
		for j := range w {
			w[j] = float32((7*i+3*j)%5) - 2 // small whole numbers: every order of sums is exact
		}
		l, err := layers.NewDense(fmt.Sprintf("dense %d", i), width, width, w, nil, kernels.ReLU)
		if err != nil {
			return err
		}
		weights, network = append(weights, w), append(network, l)
	}
	negate, err := layers.NewRowFunc("negate", width, width, func(dst, src []float32) error {
		for i, v := range src {
			dst[i] = -v
		}
		return nil
	})
	if err != nil {
		return err
	}
	p, err := pipeline.New(ctx, append(network, negate), pipeline.WithInput(width), pipeline.WithDevices(os.Args[1]))
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
	for i, want := range forward(weights, x) {
		if y[i] != want {
			return fmt.Errorf("number %d is %g, it should be %g", i, y[i], want)
		}
	}
	fmt.Println("stages", len(p.Plan().Stages), "numbers", len(y))
	return nil
}

// forward is the network without Leat.
func forward(weights [][]float32, x []float32) []float32 {
	for _, w := range weights {
		y := make([]float32, len(x))
		for i := range y {
			row, col := i/width, i%width
			for k := range width {
				y[i] += x[row*width+k] * w[col*width+k]
			}
			y[i] = max(y[i], 0)
		}
		x = y
	}
	for i := range x {
		x[i] = -x[i]
	}
	return x
}
