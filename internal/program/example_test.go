package program_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
)

// A feed-forward layer that adds to its input.
func Example() {
	weights := func(name string, rows, cols int) kernels.Matrix {
		return kernels.Matrix{Name: name, Type: kernels.F32, Rows: rows, Cols: cols, Data: kerneltest.BytesOf(make([]float32, rows*cols))}
	}
	p := program.New("layer", 64)
	gain, up, down := p.Weight(weights("gain", 1, 64)), p.Weight(weights("up", 256, 64)), p.Weight(weights("down", 64, 256))
	h := p.MatMul(p.Norm(program.Input, program.Norm{Gain: gain, Eps: 1e-5}), up)[0]
	p.Activate(h, kernels.ReLU)
	l, err := p.Layer(p.Add(program.Input, p.MatMul(h, down)[0]))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %d outputs and %d floats of workspace for each row\n", l.Name(), l.Shape().Width, l.Shape().Scratch)
	// Output: layer: 64 outputs and 320 floats of workspace for each row
}
