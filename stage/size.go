package stage

import (
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
)

// size is the memory that a run of layers needs for one batch, in bytes. input is what the
// run reads; 0 if it reads its input in another stage's memory. quantized is the width of
// the widest row that is multiplied by quantized weights.
type size struct {
	header, output, between, work, input int64
	layers, quantized                    int
}

// size returns the size of a run of layers.
func (c Config) size(layers []Layer) size {
	s := size{header: c.HeaderBytes()}
	for _, l := range layers {
		s.add(c, l.Shape())
	}
	return s
}

// rowsBytes returns the size of a full batch of rows of that width, in bytes.
func (c Config) rowsBytes(width int) int64 { return int64(c.MaxRows) * int64(width) * 4 }

// add adds a layer to the end of the run.
func (s *size) add(c Config, sh Shape) {
	rows := int64(c.MaxRows)
	s.work = max(s.work, rows*int64(sh.Scratch)*4)
	s.quantized = max(s.quantized, sh.Quantized)
	s.between = max(s.between, s.output) // of the layer that was the last one until now
	s.output = c.outputBytes(sh)
	s.layers++
}

// outputBytes returns the size of a layer's output for a full batch, in bytes.
func (c Config) outputBytes(sh Shape) int64 {
	if sh.Outputs {
		return int64(c.MaxOutputs) * int64(sh.Width) * 4
	}
	return c.rowsBytes(sh.Width)
}

// betweens returns how many buffers the run needs for activations between its layers.
func (s *size) betweens() int { return min(2, s.layers-1) }

// buffers returns the bytes that the run allocates on a device, besides the workspace of
// the device's operations.
func (s *size) buffers(c Config) int64 {
	return int64(c.InFlight)*(s.header+s.output+s.input) + s.workspace(c) + int64(s.betweens())*s.between
}

// workspace returns the bytes of the workspace, which the layers use one after the other,
// and then the selection of results.
func (s *size) workspace(c Config) int64 { return max(s.work, c.choiceBytes()) }

// choiceBytes returns the bytes that Want.Best and Want.Top need on the device.
func (c Config) choiceBytes() int64 {
	return int64(c.MaxRows)*4 + int64(c.MaxOutputs)*int64(c.MaxTop)*8
}

// Entry returns a layer as an entry for the packer, with its cost on each of the devices.
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
