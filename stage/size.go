package stage

import (
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// size is the memory that a run of layers needs for its activations, in bytes,
// and the widest row that its products quantize.
type size struct {
	header, output, between, work, input int64 // input: what the run reads, where that isn't read in place
	layers, quantized                    int
}

// size returns what a run needs under c.
func (c Config) size(layers []Layer) size {
	s := size{header: c.HeaderBytes()}
	for _, l := range layers {
		s.add(c, l.Shape())
	}
	return s
}

// rowsBytes is the room for the rows of a batch, of so many numbers each.
func (c Config) rowsBytes(width int) int64 { return int64(c.MaxRows) * int64(width) * 4 }

// add makes the run one layer longer.
func (s *size) add(c Config, sh Shape) {
	rows := int64(c.MaxRows)
	s.work = max(s.work, rows*int64(sh.Scratch)*4)
	s.quantized = max(s.quantized, sh.Quantized)
	if sh.Outputs {
		rows = int64(c.MaxOutputs)
	}
	s.between = max(s.between, s.output) // the last layer's until now
	s.output = rows * int64(sh.Width) * 4
	s.layers++
}

// betweens is how many buffers the layers of the run need among themselves.
func (s *size) betweens() int { return min(2, s.layers-1) }

// bytes is what all of it takes on a device.
func (s *size) bytes(c Config, d device.Info) (int64, error) {
	workspace, err := kernels.SizesFor(d.Kind).WorkspaceBytes(d, c.MaxRows, s.quantized)
	return int64(c.InFlight)*(s.header+s.output+s.input) + s.workspace(c) + int64(s.betweens())*s.between + workspace, err
}

// workspace is what the layers work in, one after the other, and then the choice
// of columns from the results.
func (s *size) workspace(c Config) int64 { return max(s.work, c.choiceBytes()) }

// choiceBytes is what Want.Best and Want.Top take on the device.
func (c Config) choiceBytes() int64 {
	return int64(c.MaxRows)*4 + int64(c.MaxOutputs)*int64(c.MaxTop)*8
}

// Overheads returns what stages of these layers allocate on a device besides
// their layers' weights and state: a function of the run from layer from to
// to-1. copied says that activations come from another device's memory and are
// not read in place. Layer 0 is the first of all, to which batches bring Input.
func (c Config) Overheads(d device.Info, layers []Layer, copied bool) (func(from, to int) int64, error) {
	if err := c.checkSizes(layers); err != nil {
		return nil, err
	}
	table := make([][]int64, len(layers))
	for from := range layers {
		s := size{header: c.HeaderBytes()}
		switch {
		case from == 0:
			s.input = c.rowsBytes(c.Input)
		case copied:
			s.input = c.rowsBytes(layers[from-1].Shape().Width)
		}
		for _, l := range layers[from:] {
			s.add(c, l.Shape())
			bytes, err := s.bytes(c, d)
			if err != nil {
				return nil, err
			}
			table[from] = append(table[from], bytes)
		}
	}
	return func(from, to int) int64 { return table[from][to-from-1] }, nil
}

// Entry is the layer as the packer sees it, on each of the devices.
func Entry(l Layer, devices []device.Info, c Config) (packer.Entry, error) {
	e := packer.Entry{Name: l.Name(), OutBytes: int64(l.Shape().Width) * 4}
	for _, d := range devices {
		cost, err := l.Cost(d, c)
		if err != nil {
			return e, fmt.Errorf("%s on %s: %w", l.Name(), d.Name, err)
		}
		e.Costs = append(e.Costs, cost)
	}
	return e, nil
}
