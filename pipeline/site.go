package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/calibrate"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// Site is where the stages of a pipeline may stand: the devices of a list, or
// those that a placement names, looked up once, so that several plans for them
// can be compared.
type Site struct {
	layers []stage.Layer
	config Config
	places []device.Place
	runs   []packer.Run // the placement's; nil: to be cut
	heap   int64        // bytes of the process's heap when the devices were looked up
	notes  []string
}

// Survey looks up where the layers may stand. It opens devices only to measure
// their speed, where that matters and isn't known. A malformed device list is a
// *device.ListError, a malformed placement a *placement.Error.
func Survey(ctx context.Context, layers []stage.Layer, options ...Option) (*Site, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, errors.New("a pipeline of no layers")
	}
	if err := stage.Check(layers, c.Input); err != nil {
		return nil, err
	}
	s := &Site{layers: layers, config: c, heap: heapBytes()}
	switch {
	case c.Placement != "" || c.Placed != nil:
		err = s.placed()
	case c.Imagined:
		if s.places, err = device.WhatIf(c.Devices); err == nil {
			err = s.listed()
		}
	default:
		if s.places, err = device.Resolve(c.Devices, c.Threads); err == nil {
			err = s.listed()
		}
		if err == nil {
			err = s.measure(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// listed says whether the places of a list go together.
func (s *Site) listed() error {
	if i, err := even(s.places); err != nil {
		return &device.ListError{Entry: s.places[i].Name(), Reason: err.Error()}
	}
	return nil
}

// measure fills in the speeds of the places, where there is something to
// balance and the list doesn't give them.
func (s *Site) measure(ctx context.Context) error {
	if !s.config.Calibrate || s.config.Pack != Balanced || len(s.places) < 2 {
		return nil
	}
	var each []*device.Place
	var infos []device.Info
	for i := range s.places {
		each = append(each, &s.places[i])
		for j := range s.places[i].Also {
			each = append(each, &s.places[i].Also[j])
		}
	}
	for _, at := range each {
		if at.Speed > 0 {
			return nil
		}
		infos = append(infos, at.Info)
	}
	infos, err := calibrate.Load(ctx, s.config.RatesDir, infos)
	for i, info := range infos {
		each[i].Info = info
	}
	return err
}

// placed reads the placement file: each of its runs is a place.
func (s *Site) placed() error {
	file, err := s.config.Placed, error(nil)
	if file == nil {
		if file, err = placement.ReadFile(s.config.Placement); err != nil {
			return err
		}
	}
	names := make([]string, len(s.layers))
	for i, l := range s.layers {
		names[i] = l.Name()
	}
	canonical := func(name string) string {
		if places, err := device.Resolve(name, s.config.Threads); err == nil && len(places) == 1 {
			return places[0].Name()
		}
		return ""
	}
	runs, err := file.Runs(names, canonical)
	if err != nil {
		return err
	}
	fellBack := false    // the run before went to the fallback
	var spelled []string // the places, as the file does
	for _, r := range runs {
		at, err := s.place(r.Device)
		missing := err != nil && !errors.As(err, new(*device.ListError)) && !errors.Is(err, errSeveral)
		if missing && file.Fallback() != "" {
			for _, l := range names[r.From:r.To] {
				s.notes = append(s.notes, fmt.Sprintf("%s: on %s instead of %s: %v", l, file.Fallback(), r.Device, err))
			}
			at, err = s.place(file.Fallback())
		}
		if err != nil {
			return file.At(r.Device, err)
		}
		last := len(s.runs) - 1
		if last >= 0 && (missing || fellBack) && s.places[last].String() == at.String() {
			s.runs[last].To = r.To // what was apart only by the missing device
		} else {
			s.places = append(s.places, at)
			spelled = append(spelled, r.Device)
			s.runs = append(s.runs, packer.Run{Device: len(s.runs), From: r.From, To: r.To})
		}
		fellBack = missing
	}
	if i, err := even(s.places); err != nil {
		return file.At(spelled[i], fmt.Errorf("%s: %w", s.places[i].Name(), err))
	}
	return nil
}

var errSeveral = errors.New("a layer stands on one device")

func (s *Site) place(name string) (device.Place, error) {
	places, err := device.Resolve(name, s.config.Threads)
	if err != nil {
		return device.Place{}, err
	}
	if len(places) != 1 {
		return device.Place{}, fmt.Errorf("%q stands for %d devices: %w", name, len(places), errSeveral)
	}
	return places[0], nil
}

// Plan places the layers for what they keep between batches; see Config.State. It
// cuts the layers into runs anew, unless a placement says where they go. If the
// layers don't fit, the error wraps packer.ErrNoFit. If ctx ends, the error is that
// of ctx.
func (s *Site) Plan(ctx context.Context, state stage.Config) (*Plan, error) {
	return s.plan(ctx, s.runs, state)
}

// Fits returns nil if Plan would find a plan, and else Plan's error. It takes a
// fraction of Plan's time.
func (s *Site) Fits(ctx context.Context, state stage.Config) error {
	return s.fits(ctx, s.runs, state)
}

func (s *Site) fits(ctx context.Context, runs []packer.Run, state stage.Config) error {
	p, entries, devices, err := s.prepare(ctx, runs, state)
	if err == nil {
		_, err = p.pack(entries, devices, runs, true)
	}
	return err
}

// Chooses reports whether Plan chooses between several ways to place the layers by
// their speed: no placement says where they go, they aren't packed first-fit, and
// there are several places for them.
func (s *Site) Chooses() bool {
	return s.runs == nil && s.config.Pack == Balanced && len(s.places) > 1
}

// Fits returns nil if With would find a plan, and else With's error. It takes a
// fraction of With's time.
func (p *Plan) Fits(ctx context.Context, state stage.Config) error {
	return p.site.fits(ctx, p.runs, state)
}

// With returns the plan that has the same layers at the same places, for another
// state. Its errors are those of Site.Plan.
func (p *Plan) With(ctx context.Context, state stage.Config) (*Plan, error) {
	return p.site.plan(ctx, p.runs, state)
}

// plan places the layers in the given runs, or in the best ones if runs is nil.
func (s *Site) plan(ctx context.Context, runs []packer.Run, state stage.Config) (*Plan, error) {
	p, entries, devices, err := s.prepare(ctx, runs, state)
	if err != nil {
		return nil, err
	}
	if runs, err = p.pack(entries, devices, runs, false); err != nil {
		return nil, err
	}
	p.runs = runs
	p.routes = routesOf(s.places, runs)
	if err := p.describe(ctx, runs, s.places); err != nil {
		return nil, err
	}
	return p, p.unused(entries, devices)
}

// prepare returns a plan that has no stages yet, and what the packer needs for it.
func (s *Site) prepare(ctx context.Context, runs []packer.Run, state stage.Config) (*Plan, []packer.Entry, []packer.Device, error) {
	c := s.config
	c.State = state
	p := &Plan{Notes: s.notes, site: s, layers: s.layers, config: c}
	// How many stages and routes there are is known only when the layers are
	// placed: at most one run at each place. The plan reserves memory for as many.
	if runs == nil {
		runs = everywhere(s.places)
	}
	p.routes = routesOf(s.places, runs)
	var err error
	if p.stage, err = c.stage(min(len(s.places), len(s.layers)), p.routes); err != nil {
		return nil, nil, nil, err
	}
	entries, devices, err := p.costs(ctx, s.places)
	return p, entries, devices, err
}

// pack returns the given runs if they fit, or if runs is nil the best ones; of
// those, if fits is set, only whether there are any.
func (p *Plan) pack(entries []packer.Entry, devices []packer.Device, runs []packer.Run, fits bool) ([]packer.Run, error) {
	var err error
	switch {
	case runs != nil:
		err = packer.Check(entries, devices, runs)
	case p.config.Pack == FirstFit:
		runs, err = packer.FirstFit(entries, devices)
	case fits:
		err = packer.Fits(entries, devices)
	default:
		runs, err = packer.Balanced(entries, devices)
	}
	if short := (*packer.NoFitError)(nil); errors.As(err, &short) {
		return nil, noFit{short, p.reserved(short.Memory)}
	}
	return runs, err
}

// noFit is the packer's error with sizes for people, and with the part of the memory
// that is kept free.
type noFit struct {
	*packer.NoFitError
	reserve int64
}

func (e noFit) Error() string {
	text := packer.ErrNoFit.Error() + ": " + e.Describe(device.FormatSize)
	if e.Memory != nil && e.reserve > 0 {
		text += fmt.Sprintf(" (beside %s of free memory that are reserved)", device.FormatSize(e.reserve))
	}
	return text
}

func (e noFit) Unwrap() error { return e.NoFitError }
