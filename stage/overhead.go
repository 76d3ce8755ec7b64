package stage

import (
	"math/bits"
	"slices"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Overheads computes how many bytes a stage allocates on a device besides the weights and
// the state of its layers: those of activations and of workspace. Making an Overheads for n
// layers takes O(n log n) time and memory. After that, each run of these layers takes
// constant time.
type Overheads struct {
	config                      Config
	layers                      []Layer
	widths                      []int64 // of the layers' outputs
	outputs, scratch, quantized maxima  // by layer: bytes, bytes, and indexes in quantizedWidths
	quantizedWidths             []int   // the different values of Shape.Quantized, in ascending order
}

// Overheads returns the Overheads of layers, in forward order. The first one must be the
// first layer of the pipeline, which reads the batches' Input.
func (c Config) Overheads(layers []Layer) *Overheads {
	o := &Overheads{config: c, layers: layers}
	shapes := make([]Shape, len(layers))
	for i, l := range layers {
		shapes[i] = l.Shape()
		o.quantizedWidths = append(o.quantizedWidths, shapes[i].Quantized)
	}
	slices.Sort(o.quantizedWidths)
	o.quantizedWidths = slices.Compact(o.quantizedWidths)
	var outputs, scratch, quantized []int64
	for _, s := range shapes {
		n, _ := slices.BinarySearch(o.quantizedWidths, s.Quantized)
		o.widths = append(o.widths, int64(s.Width))
		outputs = append(outputs, c.outputBytes(s))
		scratch = append(scratch, c.rowsBytes(s.Scratch))
		quantized = append(quantized, int64(n))
	}
	o.outputs, o.scratch, o.quantized = newMaxima(outputs), newMaxima(scratch), newMaxima(quantized)
	return o
}

// On returns a function that returns how many bytes a stage with the layers from to to-1
// allocates on d. copied says that the stage's activations are copied from the memory of
// another device.
func (o *Overheads) On(d device.Info, copied bool) (func(from, to int) int64, error) {
	c := o.config
	if err := c.checkSizes(o.layers); err != nil {
		return nil, err
	}
	workspaces := make([]int64, len(o.quantizedWidths))
	for i, width := range o.quantizedWidths {
		var err error
		if workspaces[i], err = kernels.SizesFor(d.Kind).WorkspaceBytes(d, c.MaxRows, width); err != nil {
			return nil, err
		}
	}
	header := c.HeaderBytes()
	return func(from, to int) int64 {
		s := size{
			header:  header,
			output:  o.outputs.over(to-1, to),
			between: o.outputs.over(from, to-1),
			work:    o.scratch.over(from, to),
			layers:  to - from,
		}
		switch {
		case from == 0:
			s.input = c.rowsBytes(c.Input)
		case copied:
			s.input = int64(c.MaxRows) * o.widths[from-1] * 4
		}
		return s.buffers(c) + workspaces[o.quantized.over(from, to)]
	}, nil
}

// maxima finds the largest of any range of numbers in constant time: level k has, for each
// index, the largest of the 2^k numbers that begin there.
type maxima [][]int64

func newMaxima(numbers []int64) maxima {
	m := maxima{numbers}
	for width := 1; 2*width <= len(numbers); width *= 2 {
		below := m[len(m)-1]
		level := make([]int64, len(numbers)-2*width+1)
		for i := range level {
			level[i] = max(below[i], below[i+width])
		}
		m = append(m, level)
	}
	return m
}

// over returns the largest number with an index from from to to-1; 0 if there is none.
func (m maxima) over(from, to int) int64 {
	if from >= to {
		return 0
	}
	k := bits.Len(uint(to-from)) - 1
	return max(m[k][from], m[k][to-1<<k])
}
