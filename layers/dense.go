package layers

import (
	"context"
	"errors"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// Linear is the activation of a layer that has none: f(x) = x.
const Linear kernels.Activation = 0

// Dense is a fully connected layer: y = f(x·Wᵀ + b), with weights W [out, in], a bias b
// [out] and an activation f. It implements stage.Layer and runs on every kind of device.
//
// Each row is computed by itself, in the order of sums of kernels.Queue: on devices of one
// kind its result has the same bits whatever else is in its batch. A NaN in a row affects
// the results of that row alone. A Dense may be loaded several times, also at the same time.
type Dense struct {
	in    int
	layer stage.Layer // the product, the bias and the activation, as ops
}

// NewDense returns a layer that reads rows of in numbers and hands on rows of out numbers.
// weights has out rows of in numbers, row after row; bias has out numbers, or is nil if the
// layer has none; f is one of the activations of package kernels, or Linear. The name must
// be unique in a pipeline, and is what errors call the layer.
//
// The layer keeps weights and bias, which must not be changed while it may still be
// loaded. NewDense returns an error, and allocates nothing of their size, if in or out is
// less than 1 or more than 2³¹, or if weights or bias have another length.
func NewDense(name string, in, out int, weights, bias []float32, f kernels.Activation) (*Dense, error) {
	w, err := Matrix(name+" weights", out, in, weights)
	if err != nil {
		return nil, err
	}
	var b kernels.Matrix
	if bias != nil {
		if b, err = Matrix(name+" bias", 1, out, bias); err != nil {
			return nil, err
		}
	}
	return DenseFromMatrix(name, w, b, f)
}

// DenseFromMatrix is NewDense with weights of any type that kernels.WeightTypes lists, of
// shape [out, in], such as a file has them. bias has the shape [1, out] and is of F32, F16
// or BF16; the zero Matrix means none. A matrix without a name is named after the layer in
// errors. If the weights are quantized, the rows that they multiply are quantized too, as
// kernels.Queue describes. Cost returns an error for a kind of device that can't have
// weights of the type.
func DenseFromMatrix(name string, weights, bias kernels.Matrix, f kernels.Activation) (*Dense, error) {
	if name == "" {
		return nil, errors.New("a dense layer has no name")
	}
	if f != Linear && !f.Known() {
		return nil, fmt.Errorf("%s: there is no %v: it may be Linear or one of %v", name, f, kernels.Activations())
	}
	if weights.Name == "" {
		weights.Name = name + " weights"
	}
	if err := checkMatrix(weights); err != nil {
		return nil, err
	}
	p := program.New(name, weights.Cols)
	y := p.MatMul(program.Input, p.Weight(weights))[0]
	if bias.Rows != 0 || bias.Cols != 0 || bias.Data != nil {
		if bias.Name == "" {
			bias.Name = name + " bias"
		}
		if err := checkMatrix(bias); err != nil {
			return nil, err
		}
		if bias.Rows != 1 || bias.Cols != weights.Rows || bias.Type.Quantized() {
			return nil, fmt.Errorf("%s: a bias of %v of shape [%d, %d]: it must be [1, %d] of F32, F16 or BF16", bias.Name, bias.Type, bias.Rows, bias.Cols, weights.Rows)
		}
		p.AddBias(y, p.Weight(bias))
	}
	if f != Linear {
		p.Activate(y, f)
	}
	layer, err := p.Layer(y)
	if err != nil {
		return nil, err
	}
	return &Dense{in: weights.Cols, layer: layer}, nil
}

// Name implements stage.Layer.
func (l *Dense) Name() string { return l.layer.Name() }

// Shape implements stage.Layer. It says that the layer reads rows of in numbers, so that
// a pipeline refuses neighbours of other widths.
func (l *Dense) Shape() stage.Shape {
	s := l.layer.Shape()
	s.Input = l.in
	return s
}

// Cost implements stage.Layer. It is that of the weights and the bias, as by function Cost.
func (l *Dense) Cost(d device.Info, c stage.Config) (packer.Cost, error) { return l.layer.Cost(d, c) }

// Load implements stage.Layer. It copies the weights and the bias to the device. The
// Forward of the Runner that it returns allocates nothing.
func (l *Dense) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	return l.layer.Load(ctx, q, c)
}
