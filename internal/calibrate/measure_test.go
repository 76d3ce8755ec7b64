package calibrate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

var (
	gpu  = device.Rates{Memory: 3e12, Float: 4e14, Integer: 8e14}
	core = device.Rates{Memory: 20e9, Float: 60e9, Integer: 200e9}
	slow = device.Rates{Memory: 0.3e9, Float: 0.2e9, Integer: 0.3e9}
)

// measureFake measures a fake and sees to it that nothing is left on it, and
// that no more than the promised memory was used.
func measureFake(t *testing.T, ctx context.Context, f *fake, budget time.Duration) (device.Rates, error) {
	t.Helper()
	r, err := measure(ctx, f, f.now, budget)
	require.Empty(t, f.broken)
	require.Zero(t, f.held, "bytes on the device")
	require.Zero(t, f.buffers)
	require.Zero(t, f.queues)
	require.False(t, f.visiting)
	row, rowErr := kernels.Q8_0.RowBytes(readCols)
	require.NoError(t, rowErr)
	require.LessOrEqual(t, f.peak+readRows*row, int64(64<<20), "on the device, and what is packed from")
	return r, err
}

func requireRates(t *testing.T, want, got device.Rates, within float64) {
	t.Helper()
	require.InEpsilon(t, want.Memory, got.Memory, within)
	require.InEpsilon(t, want.Float, got.Float, within)
	require.InEpsilon(t, want.Integer, got.Integer, within)
}

func TestMeasureFindsTheRates(t *testing.T) {
	for name, rates := range map[string]device.Rates{"gpu": gpu, "core": core, "slow": slow} {
		t.Run(name, func(t *testing.T) {
			f := newFake(rates)
			f.wait = 20 * time.Microsecond
			began := f.clock
			got, err := measureFake(t, t.Context(), f, Budget)
			require.NoError(t, err)
			requireRates(t, rates, got, 0.02)
			require.LessOrEqual(t, f.clock.Sub(began), Budget)
		})
	}
}

// A share of the budget means fewer weights and fewer tries, not other rates.
func TestMeasureKeepsToASmallBudget(t *testing.T) {
	for _, budget := range []time.Duration{Budget / 2, Budget / 5, Budget / 10} {
		f := newFake(core)
		began := f.clock
		got, err := measureFake(t, t.Context(), f, budget)
		require.NoError(t, err)
		requireRates(t, core, got, 0.02)
		require.LessOrEqual(t, f.clock.Sub(began), budget)
	}
}

// The least of it takes a slow device some time, but not forever.
func TestMeasureWithoutTimeTriesOnce(t *testing.T) {
	f := newFake(slow)
	got, err := measureFake(t, t.Context(), f, 0)
	require.NoError(t, err)
	requireRates(t, slow, got, 0.02)
	require.Equal(t, 3, f.ops)
}

// Others on the machine make some tries slow. The best one counts.
func TestMeasureTakesTheBest(t *testing.T) {
	f := newFake(core)
	f.noise = func(run int) time.Duration {
		if run%3 == 0 {
			return 0
		}
		return 7 * time.Millisecond
	}
	got, err := measureFake(t, t.Context(), f, Budget)
	require.NoError(t, err)
	requireRates(t, core, got, 0.02)
}

// A device whose waits take a while is given more work between two of them.
func TestMeasureHidesTheWaits(t *testing.T) {
	f := newFake(gpu)
	f.wait = 100 * time.Microsecond
	got, err := measureFake(t, t.Context(), f, Budget)
	require.NoError(t, err)
	requireRates(t, gpu, got, 0.06)
}

func TestMeasureWithLittleMemory(t *testing.T) {
	f := newFake(core)
	f.memory = 20 << 20
	got, err := measureFake(t, t.Context(), f, Budget)
	require.NoError(t, err)
	requireRates(t, core, got, 0.02)

	for _, memory := range []int64{0, 1 << 18, 3 << 20} {
		f = newFake(core)
		f.memory = memory
		_, err = measureFake(t, t.Context(), f, Budget)
		require.ErrorContains(t, err, "can't allocate")
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	for _, run := range []int{1, 3, 10, 20} {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake(core)
		f.onWait = func(r int) error {
			if r == run {
				cancel()
			}
			return nil
		}
		got, err := measureFake(t, ctx, f, Budget)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, got)
		require.Equal(t, run, f.runs, "nothing follows")
		cancel()
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := newFake(core)
	_, err := measureFake(t, ctx, f, Budget)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, f.ops)
}

func TestMeasureReturnsTheDevicesError(t *testing.T) {
	lost := errors.New("the device fell off its bus")
	for _, run := range []int{1, 9, 17} {
		f := newFake(core)
		f.onWait = func(r int) error {
			if r >= run {
				return lost
			}
			return nil
		}
		got, err := measureFake(t, t.Context(), f, Budget)
		require.ErrorIs(t, err, lost)
		require.Zero(t, got)
	}
}

func TestMeasureByAClockThatStandsStill(t *testing.T) {
	f := newFake(core)
	_, err := measure(t.Context(), f, func() time.Time { return time.Unix(1e9, 0) }, Budget)
	require.ErrorContains(t, err, "clock")
	require.Zero(t, f.held)
}

func TestMeasureWithoutAnOpSet(t *testing.T) {
	_, err := Measure(t.Context(), other{newFake(core)})
	require.EqualError(t, err, "this program has no kernels for metal devices")
}

type other struct{ *fake }

func (other) Info() device.Info { return device.Info{Kind: device.Metal} }

func TestMeasureCPUs(t *testing.T) {
	var set device.Set
	t.Cleanup(func() { require.NoError(t, set.Close(), "every buffer is freed") })
	places, err := device.Resolve("cpu,cpu/2", 0)
	require.NoError(t, err)
	for _, p := range places {
		d, err := set.Open(p.Info.Name)
		require.NoError(t, err)
		r, err := Measure(t.Context(), d)
		require.NoError(t, err)
		require.True(t, record{key{"a", "b"}, r.Memory, r.Float, r.Integer, time.Time{}}.valid(time.Time{}), "%v", r)
		require.Zero(t, d.Allocated())
		t.Logf("%s: %.1f GB/s, float %.1f, integer %.1f billion multiply-adds a second",
			p.Info.Name, r.Memory/1e9, r.Float/1e9, r.Integer/1e9)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	_, err = Measure(ctx, d)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, d.Allocated())
}

func BenchmarkMeasure(b *testing.B) {
	for _, list := range []string{"cpu", "cpu:0"} {
		places, err := device.Resolve(list, 0)
		require.NoError(b, err)
		b.Run(list, func(b *testing.B) {
			var set device.Set
			defer set.Close()
			d, err := set.Open(places[0].Info.Name)
			require.NoError(b, err)
			var r device.Rates
			for b.Loop() {
				if r, err = Measure(b.Context(), d); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(r.Memory/1e9, "GB/s")
			b.ReportMetric(r.Float/1e9, "float-GMAC/s")
			b.ReportMetric(r.Integer/1e9, "integer-GMAC/s")
		})
	}
}
