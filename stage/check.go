package stage

import "fmt"

// mostWidth is the largest number of float32s in a row: 8 GiB.
const mostWidth = 1 << 31

// Check returns an error if layers can't be run one after the other on rows of input
// float32s: if two layers have the same name, a layer has no name, a number in a Shape is
// out of range, or a layer reads rows of another width than the layer before it writes. The
// error names the layer.
func Check(layers []Layer, input int) error {
	names := make(map[string]int, len(layers))
	width, from := input, "the input has" // the width of the rows that the next layer reads
	for i, l := range layers {
		name, s := l.Name(), l.Shape()
		if name == "" {
			return fmt.Errorf("layer %d has no name", i)
		}
		if other, ok := names[name]; ok {
			return fmt.Errorf("layers %d and %d are both called %q: their names must differ", other, i, name)
		}
		names[name] = i
		if err := s.check(name); err != nil {
			return err
		}
		if s.Input != 0 && s.Input != width {
			return fmt.Errorf("%s reads rows of %d numbers, and %s rows of %d", name, s.Input, from, width)
		}
		width, from = s.Width, name+" writes"
	}
	return nil
}

// check returns an error if a number in the shape is out of range.
func (s Shape) check(name string) error {
	for _, of := range [...]struct {
		what    string
		numbers int
	}{
		{"a row of its output", s.Width},
		{"the workspace for a row", s.Scratch},
		{"the widest row of a product", s.Quantized},
		{"a row of its input", s.Input},
	} {
		if of.numbers < 0 || of.numbers > mostWidth {
			return fmt.Errorf("%s: %s has %d numbers: it may have from 0 to %d", name, of.what, of.numbers, mostWidth)
		}
	}
	return nil
}

// checkSizes returns an error if the bytes that a stage of the layers allocates can't be
// counted in 63 bits, or if a Shape is out of range.
func (c Config) checkSizes(layers []Layer) error {
	const most = 1 << 60
	batches, rows := float64(max(1, c.InFlight))+3, float64(max(1, c.MaxRows, c.MaxOutputs))
	if c.MaxTables < 0 || c.MaxTables > mostWidth {
		return fmt.Errorf("page tables of %d words in a batch: there may be from 0 to %d", c.MaxTables, mostWidth)
	}
	if batches*rows*4*float64(c.Input) > most {
		return fmt.Errorf("%d batches of %d rows of %d numbers don't fit any memory", c.InFlight, c.MaxRows, c.Input)
	}
	for _, l := range layers {
		s := l.Shape()
		if err := s.check(l.Name()); err != nil {
			return err
		}
		if batches*rows*4*(float64(s.Width)+float64(s.Scratch)+float64(s.Quantized)) > most {
			return fmt.Errorf("%s: %d batches of %d rows of %d numbers, with a workspace of %d, don't fit any memory", l.Name(), c.InFlight, c.MaxRows, s.Width, s.Scratch)
		}
	}
	return nil
}
