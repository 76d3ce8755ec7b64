package stage

import (
	"math/bits"
	"slices"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Overheads knows what a stage of any run of some layers allocates on a device
// besides its layers' weights and state: activations and workspace. It takes
// memory and time in proportion to the number of layers, times its logarithm, and
// answers for any run in constant time.
type Overheads struct {
	config                      Config
	layers                      []Layer
	widths                      []int64 // of the layers' outputs
	outputs, scratch, quantized maxima  // of the layers: bytes, bytes, and indexes of quantizedWidths
	quantizedWidths             []int   // that the layers have, ascending, each once
}

// Overheads prepares what On answers for these layers, all of a pipeline in forward
// order or the first ones: batches bring Input to layer 0.
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

// On returns a function that says what a stage with the layers from to to-1
// allocates on d, in bytes. copied says that activations come to the stage from
// another device's memory, so that they are not read in place.
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

// maxima answers for the largest of any range of numbers: level k has the largest of
// the 2^k numbers from each place on.
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

// over returns the largest number from place from to to-1; 0 if there is none.
func (m maxima) over(from, to int) int64 {
	if from >= to {
		return 0
	}
	k := bits.Len(uint(to-from)) - 1
	return max(m[k][from], m[k][to-1<<k])
}
