package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/calibrate"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// Site is a set of layers and the devices that are available for them. The devices are
// looked up once, so that plans for several states can be compared. [Survey] returns a
// Site.
type Site struct {
	layers    []stage.Layer
	config    config
	places    []device.Place
	runs      []packer.Run // as the placement says; nil: the packer cuts the layers into runs
	heap      int64        // bytes of the process's heap when the devices were looked up
	notes     []string
	gathering atomic.Bool // Gathering was called: its caller applies WithMaxWait and WithBacklog
}

// Survey looks up the devices that the options name. It opens devices only to measure
// their speed; see [WithCalibration]. The error is a [*device.ListError] if the device
// list is malformed, and a [*placement.Error] if the placement is.
func Survey(ctx context.Context, layers []stage.Layer, options ...Option) (*Site, error) {
	c, err := newConfig(options)
	switch {
	case err != nil:
		return nil, err
	case c.has("WithState"):
		return nil, noEffect("WithState", "the state is an argument of Site.Plan")
	}
	return survey(ctx, layers, c)
}

func survey(ctx context.Context, layers []stage.Layer, c config) (*Site, error) {
	if len(layers) == 0 {
		return nil, errors.New("a pipeline without layers")
	}
	var err error
	if err = stage.Check(layers, c.input); err != nil {
		return nil, err
	}
	s := &Site{layers: layers, config: c, heap: heapBytes()}
	switch {
	case c.has("WithPlacement") || c.has("WithPlacementFile"):
		err = s.placed()
	case c.imagined:
		if s.places, err = device.WhatIf(c.devices); err == nil {
			err = s.listed()
		}
	default:
		if s.places, err = device.Resolve(c.devices, c.threads); err == nil {
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

// listed returns an error if the replicas in the device list don't divide the routes
// evenly.
func (s *Site) listed() error {
	if i, err := even(s.places); err != nil {
		return &device.ListError{Entry: s.places[i].Name(), Reason: err.Error()}
	}
	return nil
}

// measure sets the measured speeds of the places if that was asked for, the layers are
// to be balanced between several places, and the list gives no speeds.
func (s *Site) measure(ctx context.Context) error {
	if !s.config.calibrate || s.config.pack != Balanced || len(s.places) < 2 {
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
	infos, err := calibrate.Load(ctx, s.config.ratesDir, infos)
	for i, info := range infos {
		each[i].Info = info
	}
	return err
}

// placed makes a place of each run of layers in the placement file.
func (s *Site) placed() error {
	file, err := s.config.placed, error(nil)
	if file == nil {
		if file, err = placement.ReadFile(s.config.placement); err != nil {
			return err
		}
	}
	names := make([]string, len(s.layers))
	for i, l := range s.layers {
		names[i] = l.Name()
	}
	canonical := func(name string) string {
		if places, err := device.Resolve(name, s.config.threads); err == nil && len(places) == 1 {
			return places[0].Name()
		}
		return ""
	}
	runs, err := file.Runs(names, canonical)
	if err != nil {
		return err
	}
	fellBack := false    // the previous run is on the fallback device
	var spelled []string // the devices' names in the file, by place
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
			s.runs[last].To = r.To // only the missing device kept the two runs apart
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

var errSeveral = errors.New("a layer is on one device")

// place returns the place that the placement file calls name.

func (s *Site) place(name string) (device.Place, error) {
	places, err := device.Resolve(name, s.config.threads)
	if err != nil {
		return device.Place{}, err
	}
	if len(places) != 1 {
		return device.Place{}, fmt.Errorf("%q means %d devices: %w", name, len(places), errSeveral)
	}
	return places[0], nil
}

// Plan assigns the layers to devices, given what they keep between batches; see
// [WithState]. If the options name no placement, it cuts the layers into runs. If the
// layers don't fit, the error wraps [packer.ErrNoFit]. If ctx ends, Plan returns ctx's
// error.
func (s *Site) Plan(ctx context.Context, state stage.Config) (*Plan, error) {
	return s.plan(ctx, s.runs, state)
}

// Fits returns the error that Plan would return, in a fraction of the time.
func (s *Site) Fits(ctx context.Context, state stage.Config) error {
	return s.fits(ctx, s.runs, state)
}

// fits returns the error that plan would return.
func (s *Site) fits(ctx context.Context, runs []packer.Run, state stage.Config) error {
	p, entries, devices, err := s.prepare(ctx, runs, state)
	if err == nil {
		_, err = p.pack(entries, devices, runs, true)
	}
	return err
}

// Chooses reports whether Plan compares the speed of several assignments of the layers
// to devices. That is so if there is no placement, the packing isn't [FirstFit], and the
// device list has several entries.
func (s *Site) Chooses() bool {
	return s.runs == nil && s.config.pack == Balanced && len(s.places) > 1
}

// Fits returns the error that With would return, in a fraction of the time.
func (p *Plan) Fits(ctx context.Context, state stage.Config) error {
	return p.site.fits(ctx, p.runs, state)
}

// With returns a plan with the same layers on the same devices, for another state. Its
// errors are those of [Site.Plan].
func (p *Plan) With(ctx context.Context, state stage.Config) (*Plan, error) {
	return p.site.plan(ctx, p.runs, state)
}

// plan assigns the given runs of layers to their places. If runs is nil, it cuts the
// layers into the best ones.
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

// prepare returns a plan without stages, and the input of the packer for it.
func (s *Site) prepare(ctx context.Context, runs []packer.Run, state stage.Config) (*Plan, []packer.Entry, []packer.Device, error) {
	if err := checkState(state); err != nil {
		return nil, nil, nil, err
	}
	c := s.config
	c.state = state
	p := &Plan{Notes: s.notes, site: s, layers: s.layers, config: c}
	// The numbers of stages and of routes are known only after packing. There is at most
	// one run of layers at each place, and the plan reserves memory for that many.
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

// pack returns the given runs if they fit. If runs is nil it returns the best runs, or,
// if fits is set, only checks that there are runs that fit.
func (p *Plan) pack(entries []packer.Entry, devices []packer.Device, runs []packer.Run, fits bool) ([]packer.Run, error) {
	var err error
	switch {
	case runs != nil:
		err = packer.Check(entries, devices, runs)
	case p.config.pack == FirstFit:
		runs, err = packer.FirstFit(entries, devices)
	case fits:
		err = packer.Fits(entries, devices)
	default:
		runs, err = packer.Balanced(entries, devices)
	}
	if short := (*packer.NoFitError)(nil); errors.As(err, &short) {
		return nil, noFitError{short, p.reserved(short.Memory)}
	}
	return runs, err
}

// noFitError is a *packer.NoFitError whose text has readable sizes and names the memory
// that the plan leaves free. The packer knows neither.
type noFitError struct {
	*packer.NoFitError
	reserve int64
}

func (e noFitError) Error() string {
	text := packer.ErrNoFit.Error() + ": " + e.Describe(device.FormatSize)
	if e.Memory != nil && e.reserve > 0 {
		text += fmt.Sprintf(" (%s of the free memory is reserved)", device.FormatSize(e.reserve))
	}
	return text
}

func (e noFitError) Unwrap() error { return e.NoFitError }
