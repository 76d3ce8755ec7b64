package stage

import (
	"fmt"

	"github.com/leat-dev/leat/device"
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
	s.between = max(s.between, s.output) // the last layer's until now
	s.output = c.outputBytes(sh)
	s.layers++
}

// outputBytes is what the output of a layer takes for one batch.
func (c Config) outputBytes(sh Shape) int64 {
	if sh.Outputs {
		return int64(c.MaxOutputs) * int64(sh.Width) * 4
	}
	return c.rowsBytes(sh.Width)
}

// betweens is how many buffers the layers of the run need among themselves.
func (s *size) betweens() int { return min(2, s.layers-1) }

// buffers is what all of it takes on a device, without the workspace of the
// device's ops.
func (s *size) buffers(c Config) int64 {
	return int64(c.InFlight)*(s.header+s.output+s.input) + s.workspace(c) + int64(s.betweens())*s.between
}

// workspace is what the layers work in, one after the other, and then the choice
// of columns from the results.
func (s *size) workspace(c Config) int64 { return max(s.work, c.choiceBytes()) }

// choiceBytes is what Want.Best and Want.Top take on the device.
func (c Config) choiceBytes() int64 {
	return int64(c.MaxRows)*4 + int64(c.MaxOutputs)*int64(c.MaxTop)*8
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
