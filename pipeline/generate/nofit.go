package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
)

// NoFitError is the error for a model that doesn't fit the devices. It lists changes of the
// options after which the model fits. It wraps [packer.ErrNoFit].
type NoFitError struct {
	Err  error    // which device lacks how much memory; it wraps packer.ErrNoFit
	Ways []WayOut // at most three changes, the one that uses the most memory first
}

// WayOut is a change of one option after which the model fits.
type WayOut struct {
	Setting Setting // the option
	Value   string  // its new value, such as "2048"; empty if the option is to be left out
	Bytes   int64   // how much memory the model then uses, on all devices together
	Effect  string  // what that means, such as "sequences of up to 2048 tokens instead of 4096"
}

// Setting names an option that affects how much memory a model uses.
type Setting string

// The settings that a WayOut may change.
const (
	SettingContext  Setting = "context"          // see WithContext
	SettingMaxSeqs  Setting = "sequences"        // see WithMaxSeqs
	SettingKV       Setting = "key/value type"   // see WithKV
	SettingKVMemory Setting = "key/value memory" // see WithKVMemory
)

// String returns the change in words: "context 2048", "no key/value memory".
func (w WayOut) String() string {
	if w.Value == "" {
		return "no " + string(w.Setting)
	}
	return string(w.Setting) + " " + w.Value
}

// NoWayOut is the advice of a NoFitError without Ways.
const NoWayOut = "a shorter context, a smaller key/value type or fewer sequences alone would not help: use more or larger devices, or smaller weights"

// Error implements error.
func (e *NoFitError) Error() string {
	if len(e.Ways) == 0 {
		return e.Err.Error() + ": " + NoWayOut
	}
	ways := make([]string, len(e.Ways))
	for i, w := range e.Ways {
		ways[i] = fmt.Sprintf("%s (%s in all; %s)", w, device.FormatSize(w.Bytes), w.Effect)
	}
	return e.Err.Error() + "; it fits with " + strings.Join(ways, ", or ")
}

// Unwrap returns e.Err.
func (e *NoFitError) Unwrap() error { return e.Err }

// waysOut returns a *NoFitError for an err that wraps packer.ErrNoFit. It returns any other
// err unchanged, and ctx's error if ctx has ended.
func (p *Plan) waysOut(ctx context.Context, err error) error {
	if !errors.Is(err, packer.ErrNoFit) {
		return err
	}
	e := &NoFitError{Err: err}
	try := func(w WayOut, change func(*Plan)) bool {
		other := p.changed(change)
		if other.place(ctx) != nil {
			return false
		}
		w.Bytes = other.bytes()
		e.Ways = append(e.Ways, w)
		return true
	}
	for _, kv := range []kernels.Type{kernels.F16, kernels.Q8_0} {
		if kv <= p.config.kv {
			continue // in the order of the types' sizes
		}
		if try(WayOut{Setting: SettingKV, Value: strings.ToLower(kv.String()), Effect: "keys and values rounded to " + kv.String()},
			func(o *Plan) { o.config.kv = kv }) {
			break
		}
	}
	if p.config.kvMemory >= 0 {
		try(WayOut{Setting: SettingKVMemory, Effect: "as much for keys and values as one sequence needs, or more where there is room"},
			func(o *Plan) { o.config.kvMemory = -1 })
	}
	if n := p.largestWith(ctx, p.MaxSeqs-1, func(o *Plan, n int) { o.MaxSeqs = n }); n > 0 {
		try(WayOut{Setting: SettingMaxSeqs, Value: fmt.Sprint(n), Effect: fmt.Sprintf("%d at once instead of %d", n, p.MaxSeqs)},
			func(o *Plan) { o.MaxSeqs = n })
	}
	const step = kernels.PageTokens
	if n := step * p.largestWith(ctx, (p.Context-1)/step, func(o *Plan, n int) { o.Context = n * step }); n > 0 {
		try(WayOut{Setting: SettingContext, Value: fmt.Sprint(n), Effect: fmt.Sprintf("sequences of up to %d tokens instead of %d", n, p.Context)},
			func(o *Plan) { o.Context = n })
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	slices.SortStableFunc(e.Ways, func(a, b WayOut) int { return cmp.Compare(b.Bytes, a.Bytes) })
	e.Ways = e.Ways[:min(3, len(e.Ways))]
	return e
}

// largestWith returns the largest n up to limit with which the plan fits, 0 if none.
func (p *Plan) largestWith(ctx context.Context, limit int, change func(o *Plan, n int)) int {
	n, _ := largestFit(limit, func(n int) error { // of other errors, waysOut sees that of ctx
		return p.changed(func(o *Plan) { change(o, n) }).fits(ctx)
	})
	return n
}

// changed returns a plan that isn't placed yet, for the same devices and other
// settings.
func (p *Plan) changed(change func(*Plan)) *Plan {
	other := &Plan{model: p.model, config: p.config, site: p.site, MaxSeqs: p.MaxSeqs, Context: p.Context}
	change(other)
	return other
}

// bytes returns what all stages hold together.
func (p *Plan) bytes() (sum int64) {
	for _, s := range p.Stages {
		sum += s.Bytes()
	}
	return sum
}
