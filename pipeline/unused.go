package pipeline

import (
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
)

// unused sets p.Unused to the places that have no stage, with the reasons.
func (p *Plan) unused(entries []packer.Entry, devices []packer.Device) error {
	used := make([]bool, len(devices))
	for _, r := range p.runs {
		used[r.Device] = true
	}
	for d := range devices {
		if used[d] {
			continue
		}
		reason, err := p.whyUnused(entries, devices, d)
		if err != nil {
			return err
		}
		at := StagePlan{Device: p.site.places[d].Info}
		for _, each := range p.site.places[d].Each() {
			at.Replicas = append(at.Replicas, each.Info)
		}
		p.Unused = append(p.Unused, Unused{at.Devices(), reason})
	}
	return nil
}

// whyUnused returns why place d has no stage, in a plan that fits.
func (p *Plan) whyUnused(entries []packer.Entry, devices []packer.Device, d int) (string, error) {
	smallest, err := packer.Excluded(entries, devices, d)
	if err != nil {
		return "", err
	}
	size := device.FormatSize
	switch s := smallest; {
	case s != nil && s.Budget == 0 && s.Memory == nil:
		return "its budget is 0", nil
	case s != nil && s.Memory != nil:
		return fmt.Sprintf("no layer fits: %s has %s free, and the smallest, %s, needs %s with its workspace", s.Memory.Name, size(s.Budget), s.Entry, size(s.Need+s.Overhead)), nil
	case s != nil:
		return fmt.Sprintf("no layer fits: its budget is %s, and the smallest, %s, needs %s with its workspace", size(s.Budget), s.Entry, size(s.Need+s.Overhead)), nil
	case len(p.runs) == len(entries):
		return "every layer has a device of its own already", nil
	case p.config.pack == FirstFit && d > p.runs[len(p.runs)-1].Device:
		return "the devices before it hold all layers", nil
	case p.config.pack == FirstFit:
		return fmt.Sprintf("%s, which is next, doesn't fit there", entries[p.next(d)].Name), nil
	}
	return "no plan that fits would be faster with it", nil
}

// next returns the layer that would be the first one at a place without layers.
func (p *Plan) next(d int) (layer int) {
	for _, r := range p.runs {
		if r.Device < d {
			layer = r.To
		}
	}
	return layer
}
