package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// marked is a layer of which each loaded copy has a number, and appends it to the
// path of the batch's slot.
type marked struct {
	stagetest.Layer
	paths  [][]int              // by slot; shared by the layers of a pipeline
	batch  func(copy int) error // before each batch, if not nil
	loaded int
}

type markedRunner struct {
	stage.Runner
	layer *marked
	copy  int
}

func (l *marked) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r, err := l.Layer.Load(ctx, q, c)
	l.loaded++
	return markedRunner{r, l, l.loaded - 1}, err
}

func (r markedRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	if path := r.layer.paths; path != nil {
		path[p.Slot] = append(path[p.Slot], r.copy)
	}
	if r.layer.batch != nil {
		if err := r.layer.batch(r.copy); err != nil {
			return err
		}
	}
	return r.Runner.Forward(p, in, out)
}

// marking is n layers that double and add 1, of equal cost.
func marking(n int) (layers []stage.Layer) {
	for i := range n {
		layers = append(layers, &marked{Layer: stagetest.Layer{Called: fmt.Sprintf("block %d", i), Width: 3, Factor: 2, Term: 1, Costs: packer.Cost{Fixed: 1}}})
	}
	return layers
}

// replicated is a device list of stages with so many replicas, all on one core.
func replicated(counts ...int) string {
	var entries []string
	for _, k := range counts {
		entries = append(entries, strings.Join(slices.Repeat([]string{"cpu:0"}, k), "|"))
	}
	return strings.Join(entries, ",")
}

// submit is send by a route.
func submit(t testing.TB, l *line, route int, tokens ...int32) {
	b := <-l.Free()
	b.Route = route
	for i, token := range tokens {
		b.Header.Append(token, int32(i), 0, true)
	}
	require.NoError(t, l.Submit(t.Context(), b))
}

func TestABatchGoesByItsRoute(t *testing.T) {
	for _, counts := range [][]int{{1}, {2}, {1, 2}, {2, 1}, {1, 3, 1}, {4, 2, 1, 4}, {2, 6, 3}, {3, 2, 6}, {1, 2, 2, 4}} {
		t.Run(fmt.Sprint(counts), func(t *testing.T) {
			n := len(counts)
			l, err := start(t, marking(n), pipeline.WithDevices(stagetest.Devices(t, replicated(counts...))), pipeline.WithMaxBatch(4))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close()) }()
			routes := slices.Max(counts)
			require.Equal(t, routes, l.Plan().Routes())
			require.Equal(t, n, l.Plan().InFlight(), "on each route")
			require.Len(t, l.Plan().Stages, n)

			const rounds = 20
			sent := 0
			for range rounds {
				for i := range n * routes { // as many as there are
					submit(t, l, i%routes, int32(i))
					sent++
				}
				last := slices.Repeat([]int{-1}, routes)
				for range n * routes {
					b := <-l.Done()
					require.NoError(t, b.Err())
					i := int(b.Header.Tokens[0])
					assert.Equal(t, doubled(float32(i), n), b.Values()[0])
					assert.Equal(t, i%routes, b.Route)
					assert.Greater(t, i, last[b.Route], "those of a route stay in order")
					last[b.Route] = i
					l.Release(b)
				}
			}
			for i, s := range l.Stats().Stages {
				k := counts[i]
				assert.EqualValues(t, sent, s.Batches)
				assert.EqualValues(t, sent, s.Rows)
				assert.Len(t, strings.Split(s.Devices(), "|"), k)
				if k == 1 {
					assert.Nil(t, s.Replicas)
					assert.Nil(t, s.StagePlan.Replicas)
					continue
				}
				assert.Len(t, s.StagePlan.Replicas, k)
				require.Len(t, s.Replicas, k)
				var busy, share float64
				for j, r := range s.Replicas {
					assert.EqualValues(t, sent/k, r.Batches, "routes are shared evenly")
					assert.Equal(t, s.Each()[j].Device.Name, r.Device.Name)
					busy += float64(r.Busy)
					share += r.Share
				}
				assert.Equal(t, busy, float64(s.Busy))
				assert.InDelta(t, share/float64(k), s.Share, 1e-9)
			}
		})
	}
}

func TestABatchPassesOneReplicaAStage(t *testing.T) {
	counts := []int{2, 6, 1, 3}
	layers, paths := marking(len(counts)), make([][]int, 64)
	for _, layer := range layers {
		layer.(*marked).paths = paths
	}
	l, err := start(t, layers, pipeline.WithDevices(stagetest.Devices(t, replicated(counts...))), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	for route := range 6 {
		b := <-l.Free()
		paths[b.Slot], b.Route = nil, route
		b.Header.Append(1, 0, 0, true)
		require.NoError(t, l.Submit(t.Context(), b))
		b = <-l.Done()
		require.NoError(t, b.Err())
		assert.Equal(t, []int{route % 2, route % 6, 0, route % 3}, paths[b.Slot])
		for i := range counts {
			assert.Positive(t, b.Took(i), "by the stage's place, whichever replica it was")
		}
		assert.Zero(t, b.Took(len(counts)))
		l.Release(b)
		assert.Zero(t, b.Route)
	}
	for _, route := range []int{-1, 6} {
		b := <-l.Free()
		b.Route = route
		assert.ErrorContains(t, l.Submit(t.Context(), b), fmt.Sprintf("route %d of 6", route))
		l.Release(b)
	}
	require.NoError(t, l.Close())
}

// What one replica does to its batches is nothing to those of the others.
func TestAReplicaThatFailsTakesItsRoutesOnly(t *testing.T) {
	broken := errors.New("a cable came off")
	for name, fault := range map[string]func(copy int) error{
		"error": func(int) error { return broken },
		"panic": func(int) error { panic(broken) },
	} {
		for _, counts := range [][]int{{2}, {1, 4, 2}, {4, 2, 1}} {
			t.Run(fmt.Sprint(name, counts), func(t *testing.T) {
				layers := marking(len(counts))
				at := slices.IndexFunc(counts, func(k int) bool { return k > 1 })
				k := counts[at]
				layers[at].(*marked).batch = func(copy int) error {
					if copy == 1 {
						return fault(copy)
					}
					return nil
				}
				l, err := start(t, layers, pipeline.WithDevices(stagetest.Devices(t, replicated(counts...))), pipeline.WithMaxBatch(4))
				require.NoError(t, err)
				routes := l.Plan().Routes()
				for range 30 {
					for i := range l.Plan().InFlight() * routes {
						submit(t, l, i%routes, int32(i))
					}
					for range l.Plan().InFlight() * routes {
						b := <-l.Done()
						if b.Route%k != 1 {
							require.NoError(t, b.Err())
							assert.Equal(t, doubled(float32(b.Header.Tokens[0]), len(counts)), b.Values()[0])
						} else {
							var where *stage.Error
							require.ErrorAs(t, b.Err(), &where)
							require.ErrorIs(t, b.Err(), broken)
							assert.Equal(t, at, where.Stage)
							assert.Equal(t, l.Plan().Stages[at].Each()[1].Device.Name, where.Device)
						}
						l.Release(b)
					}
				}
				require.NoError(t, l.Close())
			})
		}
	}
}

// A replica that hangs holds up its own routes, and no other, though one stage
// sends to both.
func TestAReplicaThatHangsHoldsUpItsRoutesOnly(t *testing.T) {
	for _, counts := range [][]int{{2, 1}, {1, 2}, {1, 2, 1}} {
		layers := marking(len(counts))
		release := make(chan struct{})
		layers[slices.Index(counts, 2)].(*marked).batch = func(copy int) error {
			if copy == 1 {
				<-release
			}
			return nil
		}
		// Each replica needs a device of its own here: one that hangs has it.
		list := replicated(counts...)
		list = strings.Replace(list, "cpu:0|cpu:0", "cpu:0|cpu:1", 1)
		if _, err := device.Resolve("cpu:1", 0); err != nil {
			t.Skip("there is one core: ", err)
		}
		if counts[0] == 1 {
			list = strings.Replace(list, "cpu:0,", "cpu:0-1,", 1)
		}
		l, err := start(t, layers, pipeline.WithDevices(list), pipeline.WithInFlight(8), pipeline.WithMaxBatch(4))
		require.NoError(t, err)
		const hung = 12
		for i := range hung {
			submit(t, l, 1, int32(i))
		}
		for i := range 50 {
			submit(t, l, 0, int32(i))
			b := <-l.Done()
			require.NoError(t, b.Err())
			require.Zero(t, b.Route)
			l.Release(b)
		}
		close(release)
		for range hung {
			b := <-l.Done()
			require.NoError(t, b.Err())
			l.Release(b)
		}
		require.NoError(t, l.Close())
	}
}

func TestShutdownWithManySenders(t *testing.T) {
	for _, counts := range [][]int{{4, 1}, {1, 4}, {4, 2, 4}, {3, 2, 6, 1}} {
		l, err := start(t, marking(len(counts)), pipeline.WithDevices(stagetest.Devices(t, replicated(counts...))), pipeline.WithMaxBatch(4))
		require.NoError(t, err)
		n := l.Plan().InFlight() * l.Plan().Routes()
		var sending sync.WaitGroup
		for i := range n {
			sending.Go(func() { submit(t, l, i%l.Plan().Routes(), int32(i)) })
		}
		sending.Wait()
		require.NoError(t, l.Shutdown(t.Context()))
		for range n {
			b, open := <-l.Done()
			require.True(t, open)
			assert.NoError(t, b.Err())
		}
		_, open := <-l.Done()
		assert.False(t, open)
	}
}

func TestStartFailureOfAReplicaLeavesNothing(t *testing.T) {
	layers := marking(2)
	n := 0
	layers[1] = loading{layers[1], func() error {
		if n++; n == 3 {
			return errors.New("no memory")
		}
		return nil
	}}
	_, err := start(t, layers, pipeline.WithDevices(stagetest.Devices(t, replicated(2, 4))))
	var at *stage.Error
	require.ErrorAs(t, err, &at)
	assert.Equal(t, 1, at.Stage)
	assert.Equal(t, 2, layers[0].(*marked).Closed)
	assert.Zero(t, allocated.Bytes("cpu:0"))
}

// loading is a layer that may fail to load.
type loading struct {
	stage.Layer
	load func() error
}

func (l loading) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	if err := l.load(); err != nil {
		return nil, err
	}
	return l.Layer.Load(ctx, q, c)
}

func TestReplicasAllocateNothing(t *testing.T) {
	l, err := start(t, marking(3), pipeline.WithDevices(stagetest.Devices(t, replicated(2, 1, 4))), pipeline.WithMaxBatch(4))
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	ctx := t.Context()
	n := l.Plan().InFlight() * l.Plan().Routes()
	round := func() {
		for i := range n {
			b := <-l.Free()
			b.Route = i % 4
			b.Header.Append(1, 0, 0, true)
			if l.Submit(ctx, b) != nil {
				return
			}
		}
		for range n {
			l.Release(<-l.Done())
		}
	}
	round()
	assert.Zero(t, testing.AllocsPerRun(100, round))
}

func TestReplicasThatCannotShareRoutes(t *testing.T) {
	_, err := pipeline.NewPlan(t.Context(), marking(3), pipeline.WithDevices(replicated(3, 2, 1)))
	require.ErrorAs(t, err, new(*device.ListError))
	assert.ErrorContains(t, err, `"cpu:0|cpu:0": 2 replicas, and cpu:0|cpu:0|cpu:0 has 3`)
	assert.ErrorContains(t, err, "use a number that divides 3")

	_, err = pipeline.NewPlan(t.Context(), marking(3), pipeline.WithImagined("cuda:0|cuda:1|cuda:2,cuda:3,cuda:4|cuda:5"))
	assert.ErrorAs(t, err, new(*device.ListError))

	_, err = pipeline.NewPlan(t.Context(), marking(3), pipeline.WithDevices(replicated(64)), pipeline.WithInFlight(1<<15))
	assert.ErrorContains(t, err, "32768 batches in flight on each of 64 routes: there may be at most 1048576 in all")
}

// Balanced takes a stage with replicas to be as fast as they are together, the
// slowest setting their pace.
func TestBalancedCountsReplicas(t *testing.T) {
	cut := func(list string, layers int) (cuts []int, plan *pipeline.Plan) {
		t.Helper()
		plan, err := pipeline.NewPlan(t.Context(), marking(layers), pipeline.WithImagined(list))
		require.NoError(t, err)
		for _, s := range plan.Stages {
			cuts = append(cuts, s.To-s.From)
		}
		return cuts, plan
	}
	cuts, plan := cut("cpu:0|cpu:1,cpu:2", 6)
	assert.Equal(t, []int{4, 2}, cuts)
	assert.InDelta(t, 2, plan.Stages[0].Seconds, 1e-9, "from batch to batch")
	assert.InDelta(t, 4, plan.Stages[0].Each()[1].Seconds, 1e-9, "that one takes")
	assert.InDelta(t, 3, plan.Speedup(), 1e-9)
	assert.Equal(t, 1, plan.Crossings())
	cuts, _ = cut("cuda:0@1|cuda:1@1,cuda:2@2", 6)
	assert.Equal(t, []int{3, 3}, cuts, "two slow cards before a fast one")
	cuts, _ = cut("cuda:0@1|cuda:1@0.5,cuda:2@1", 6)
	assert.Equal(t, []int{3, 3}, cuts, "two together are as fast as two of the slower one")
	cuts, _ = cut("cuda:0@1|cuda:0@1,cuda:2@1", 6)
	assert.Equal(t, []int{3, 3}, cuts, "one device at both places does no more than one")

	// Against every cut.
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		var entries []string
		var speeds []float64 // of a place
		gpu := 0
		for range 1 + rng.IntN(4) {
			var names []string
			slowest := 8.0
			k := 1 << rng.IntN(3)
			for range k {
				speed := float64(1 + rng.IntN(4))
				slowest = min(slowest, speed)
				names = append(names, fmt.Sprintf("cuda:%d@%g", gpu, speed))
				gpu++
			}
			entries = append(entries, strings.Join(names, "|"))
			speeds = append(speeds, slowest*float64(k))
		}
		layers := 1 + rng.IntN(8)
		best := float64(layers) * 8
		var try func(place, left int, slowest float64)
		try = func(place, left int, slowest float64) {
			if left == 0 {
				best = min(best, slowest)
			}
			if place == len(speeds) {
				return
			}
			for n := range left + 1 {
				try(place+1, left-n, max(slowest, float64(n)/speeds[place]))
			}
		}
		try(0, layers, 0)
		_, plan := cut(strings.Join(entries, ","), layers)
		assert.InDelta(t, best, plan.Stages[plan.Slowest()].Seconds, 1e-9, "%v, %d layers", entries, layers)
	}
}

// A place that gets no layers takes no part in the routes.
func TestRoutesOfTheStagesThatThereAre(t *testing.T) {
	layers := marking(2)
	plan, err := pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices("cpu:0,"+replicated(4)), pipeline.WithPack(pipeline.FirstFit), pipeline.WithState(stage.Config{Pages: 5}))
	require.NoError(t, err)
	require.Len(t, plan.Stages, 1)
	assert.Equal(t, 1, plan.Routes())
	assert.Equal(t, 1, plan.InFlight())
}

// Layers without state may see any batch, so Do takes whichever replica is free.
func TestDoTakesWhicheverReplicaIsFree(t *testing.T) {
	for _, counts := range [][]int{{2}, {2, 1}, {1, 4}, {2, 2, 1, 4}} {
		layers := mixing(slices.Repeat([]int{3}, 2*len(counts))...)
		p := open(t, layers, pipeline.WithInput(3), pipeline.WithDevices(stagetest.Devices(t, replicated(counts...))), pipeline.WithMaxBatch(8))
		require.NoError(t, p.Warmup(t.Context()))
		var calling sync.WaitGroup
		for caller := range 8 {
			calling.Go(func() {
				r := rand.New(rand.NewPCG(uint64(caller), 1))
				for range 30 {
					x := random(r, 3*(1+r.IntN(20)))
					y, err := p.Do(t.Context(), x)
					assert.NoError(t, err)
					assert.Equal(t, mixed(layers, x, 3), y)
				}
			})
		}
		calling.Wait()
		for _, s := range p.Stats().Stages {
			for _, r := range s.Replicas {
				assert.Positive(t, r.Batches)
			}
		}
	}
}

// A replica that fails everything costs a call now and then, and the pipeline
// works on.
func TestDoAvoidsABrokenReplica(t *testing.T) {
	broken := errors.New("a cable came off")
	layer := &marked{Layer: stagetest.Layer{Called: "block 0", Width: 1, Factor: 1}}
	layer.batch = func(copy int) error {
		if copy == 1 {
			return broken
		}
		return nil
	}
	p := open(t, []stage.Layer{layer}, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, replicated(4))))
	const calls = 4000
	failed := 0
	for range calls {
		if _, err := p.Do(t.Context(), make([]float32, 1)); err != nil {
			require.ErrorIs(t, err, broken)
			failed++
		}
	}
	assert.Positive(t, failed)
	assert.Less(t, failed, 14, "after each failure it rests for twice as many batches")
	assert.NoError(t, p.Err())
	replicas := p.Stats().Stages[0].Replicas
	for _, i := range []int{0, 2, 3} {
		assert.Greater(t, replicas[i].Batches, int64(calls/4), "the others share its work")
	}
}

// A placement may have replicas; a device of theirs that is missing is a device
// that is missing.
func TestPlacementsWithReplicas(t *testing.T) {
	file := func(text string) pipeline.Option {
		path := filepath.Join(t.TempDir(), "placement.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return pipeline.WithPlacement(path)
	}
	layers := marking(3)
	plan, err := pipeline.NewPlan(t.Context(), layers, file(`{"version":1,"layers":{"0-1":"cpu:0=1GiB|cpu:0@2","2":"cpu:0"},
		"stages":[{"device":"cpu:0|cpu:0","from":0,"to":2},{"device":"cpu:0","from":2,"to":3}]}`))
	require.NoError(t, err)
	assert.Equal(t, 2, plan.Routes())
	assert.Equal(t, "cpu:0=1073741824|cpu:0@2", plan.Stages[0].Place)

	plan, err = pipeline.NewPlan(t.Context(), layers, file(`{"version":1,"layers":{"0-1":"cpu:0|cpu:4095","2":"cpu:0"},"fallback":"cpu"}`))
	require.NoError(t, err)
	assert.Equal(t, 1, plan.Routes())
	assert.Len(t, plan.Notes, 2)

	for text, want := range map[string]string{
		`{"version":1,"layers":{"0":"cpu:0|cpu:0","1-2":"cpu:0|cpu:0|cpu:0"}}`: `$.layers["0"]: cpu:0|cpu:0: 2 replicas, and cpu:0|cpu:0|cpu:0 has 3`,
		`{"version":1,"layers":{"0":"cpu:0|cuda:0","*":"cpu:0"}}`:              "different kinds",
		`{"version":1,"layers":{"0":"cpu:0|cpu/2","*":"cpu:0"}}`:               "cpu/2 stands for 2 devices",
	} {
		_, err = pipeline.NewPlan(t.Context(), layers, file(text))
		require.ErrorAs(t, err, new(*placement.Error))
		assert.ErrorContains(t, err, want)
	}
}
