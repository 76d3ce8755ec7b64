package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// remembering is a layer that stores its rows on their pages, and attends to them.
// Its weights are shared by all copies of it on a device, under a name.
type remembering struct {
	name   string
	matrix kernels.Matrix
}

const rememberedWidth = 64

func newRemembering(name string, rng *rand.Rand) *remembering {
	l := &remembering{name: name}
	data := make([]byte, 4*rememberedWidth*rememberedWidth)
	for i := 0; i < len(data); i += 4 {
		bits := math.Float32bits(float32(rng.NormFloat64()) / 8)
		data[i], data[i+1], data[i+2], data[i+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
	}
	l.matrix = kernels.Matrix{Name: name, Type: kernels.F32, Rows: rememberedWidth, Cols: rememberedWidth, Data: data}
	return l
}

func (l *remembering) Name() string { return l.name }
func (l *remembering) Shape() stage.Shape {
	return stage.Shape{Width: rememberedWidth, Scratch: rememberedWidth}
}

func (l *remembering) spec(c stage.Config) kernels.CacheSpec {
	return kernels.CacheSpec{Type: c.KV, Heads: 2, HeadDim: rememberedWidth / 2, Pages: c.Pages}
}

func (l *remembering) Cost(d device.Info, c stage.Config) (cost packer.Cost, err error) {
	sizes := kernels.SizesFor(d.Kind)
	if cost.Weights, err = sizes.WeightBytes(l.matrix.Type, l.matrix.Rows, l.matrix.Cols); err != nil {
		return cost, err
	}
	cost.State, err = sizes.CacheBytes(l.spec(c))
	cost.Fixed = 1
	return cost, err
}

func (l *remembering) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	w, err := q.Pack(ctx, l.matrix)
	if err != nil {
		return nil, err
	}
	cache, err := q.NewCache(l.spec(c))
	return &rememberingRunner{weight: w, cache: cache}, err
}

type rememberingRunner struct {
	weight kernels.Weight
	cache  kernels.Cache
}

func (r *rememberingRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	keys, _ := stage.Floats(p.Work, in.Rows, rememberedWidth)
	q.MatMul(in, []kernels.Product{{W: r.weight, Dst: keys}})
	q.StoreKV(r.cache, keys, in, p.Rows)
	q.Attention(out, in, r.cache, kernels.AttentionSpec{Scale: 0.1}, p.Rows)
	q.Add(out, in)
	return nil
}

func (r *rememberingRunner) Close() error {
	err := r.cache.Free()
	if e := r.weight.Free(); err == nil {
		err = e
	}
	return err
}

// sequence is rows of one route, at the positions from 0 on.
func sequence(seed uint64, rows int) []float32 {
	return random(rand.New(rand.NewPCG(seed, 9)), rows*rememberedWidth)
}

// step sends rows from..to-1 of a sequence by a route, with the table that all
// routes have: their pages have the same numbers.
func step(t *testing.T, l *line, route int, table []int32, x []float32, from, to int) []float32 {
	b := <-l.Free()
	b.Route = route
	first := b.Header.Table(table)
	for i := from; i < to; i++ {
		b.Header.Append(0, int32(i), first, true)
	}
	copy(b.Input, x[from*rememberedWidth:to*rememberedWidth])
	require.NoError(t, l.Submit(t.Context(), b))
	b = <-l.Done()
	require.NoError(t, b.Err())
	y := append([]float32{}, b.Values()...)
	l.Release(b)
	return y
}

// The pages of a route are its own, whichever replicas it shares with others, and
// results have the same bits on every route as without replicas.
func TestEveryRouteGivesTheSameBits(t *testing.T) {
	second := "cpu:1"
	if _, err := device.Resolve(second, 0); err != nil {
		second = "cpu:0"
	}
	rng := rand.New(rand.NewPCG(3, 4))
	layers := []stage.Layer{newRemembering("block 0", rng), newRemembering("block 1", rng), newRemembering("block 2", rng)}
	const rows, pages = 100, 4
	table := []int32{2, 0, 3, 1}
	options := func(list string) []pipeline.Option {
		return []pipeline.Option{
			pipeline.WithDevices(list), pipeline.WithInput(rememberedWidth), pipeline.WithMaxBatch(32),
			pipeline.WithState(stage.Config{Pages: pages, KV: kernels.F16, MaxTables: pages}),
		}
	}
	whole := map[uint64][]float32{}
	alone, err := start(t, layers, options(stagetest.OneKind(t, "cpu"))...)
	require.NoError(t, err)
	for seed := range uint64(6) {
		x := sequence(seed, rows)
		for from := 0; from < rows; from += 25 {
			whole[seed] = append(whole[seed], step(t, alone, 0, table, x, from, from+25)...)
		}
	}
	require.NoError(t, alone.Close())

	for _, list := range []string{"cpu:0|" + second, "cpu:0|" + second + ",cpu:0", "cpu:0," + second + "|cpu:0|cpu:0," + second, replicated(2, 1, 6)} {
		t.Run(list, func(t *testing.T) {
			l, err := start(t, layers, options(stagetest.OneKind(t, list))...)
			require.NoError(t, err)
			routes := l.Plan().Routes()
			got := make([][]float32, routes)
			for from := 0; from < rows; from += 10 { // in turns, in other pieces
				for route := range routes {
					got[route] = append(got[route], step(t, l, route, table, sequence(uint64(route), rows), from, from+10)...)
				}
			}
			for route := range routes {
				assert.Equal(t, whole[uint64(route)], got[route], "route %d", route)
			}

			b := <-l.Free()
			b.Route = routes - 1
			b.Header.Append(0, 0, b.Header.Table([]int32{pages}), true)
			require.NoError(t, l.Submit(t.Context(), b))
			b = <-l.Done()
			assert.ErrorContains(t, b.Err(), fmt.Sprintf("page %d", pages), "the last route ends with the cache")
			l.Release(b)
			require.NoError(t, l.Close())
		})
	}
}

// What a plan says of replicas is what their devices hold.
func TestReplicasHoldWhatIsPlanned(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var layers []stage.Layer
	for i := range 4 {
		layers = append(layers, newRemembering(fmt.Sprintf("block %d", i), rng))
	}
	lists := []string{replicated(1), replicated(2), replicated(1, 2), replicated(4, 2, 1)}
	if _, err := device.Resolve("cpu:0-1", 0); err == nil {
		lists = append(lists, "cpu:0|cpu:1", "cpu:0-1|cpu:1,cpu:0", "cpu:0,cpu:1|cpu:0-1|cpu:1")
	}
	for _, list := range lists {
		plan, err := pipeline.NewPlan(t.Context(), layers, pipeline.WithDevices(stagetest.OneKind(t, list)), pipeline.WithMaxBatch(16), pipeline.WithInput(rememberedWidth),
			pipeline.WithState(stage.Config{Pages: 7, KV: kernels.F16, MaxTables: 7}))
		require.NoError(t, err)
		planned := map[string]int64{}
		page, err := kernels.SizesFor(plan.Stages[0].Device.Kind).CacheBytes(kernels.CacheSpec{Type: kernels.F16, Heads: 2, HeadDim: rememberedWidth / 2, Pages: 1})
		require.NoError(t, err)
		for _, s := range plan.Stages {
			var bytes, entries int64
			for _, r := range s.Each() {
				planned[r.Device.Name] += r.Bytes()
				bytes += r.Bytes()
				for _, e := range r.Entries {
					entries += e.Weights + e.State
				}
			}
			assert.Equal(t, bytes, s.Bytes(), "all replicas together")
			assert.Equal(t, s.Weights+s.State, entries)
			assert.EqualValues(t, int64(s.To-s.From)*7*page*int64(plan.Routes()), s.State, "the pages of every route, once a layer")
		}
		l, err := startLine(t.Context(), plan)
		require.NoError(t, err)
		for name, bytes := range planned {
			assert.Equal(t, bytes, allocated.Bytes(name), "%s of %s", name, list)
		}
		require.NoError(t, l.Close())
	}
}

// The same of a model whose head is read apart from its embedding: it lies once on
// a device, the norm before it once a replica.
func TestReplicasOfAModelHoldWhatIsPlanned(t *testing.T) {
	const path = "../../shared/models/stories260K.gguf"
	m, err := model.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(path, " isn't there")
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for _, list := range []string{replicated(2), replicated(2, 1), replicated(1, 2), replicated(4, 2)} {
		plan, err := pipeline.NewPlan(t.Context(), m.Layers, pipeline.WithDevices(list), pipeline.WithMaxBatch(16),
			pipeline.WithState(stage.Config{Pages: 3, KV: kernels.F16, MaxTables: 8}))
		require.NoError(t, err)
		var bytes int64
		for _, s := range plan.Stages {
			bytes += s.Bytes()
		}
		l, err := startLine(t.Context(), plan)
		require.NoError(t, err)
		assert.Equal(t, bytes, allocated.Bytes("cpu:0"), list)
		require.NoError(t, l.Close())
	}
}

// Budgets are those of each replica, and the host's memory holds all of them.
func TestBudgetsOfReplicas(t *testing.T) {
	layers := marking(6)
	for _, l := range layers {
		l.(*marked).Costs.Weights = 1 << 20
	}
	plan := func(list string, pack pipeline.Pack) (*pipeline.Plan, error) {
		return pipeline.NewPlan(t.Context(), layers, pipeline.WithImagined(list), pipeline.WithPack(pack), pipeline.WithMaxBatch(4))
	}
	for _, pack := range []pipeline.Pack{pipeline.FirstFit, pipeline.Balanced} {
		p, err := plan("cpu:0=10MiB|cpu:1=3200KiB,cpu:2", pack)
		require.NoError(t, err)
		assert.Equal(t, 3, p.Stages[0].To, "the smaller budget counts")
		assert.EqualValues(t, 6<<20, p.Stages[0].Weights)
		assert.EqualValues(t, 10<<20+3200<<10, p.Stages[0].Budget)
		assert.EqualValues(t, 3200<<10, p.Stages[0].Each()[1].Budget)
		assert.Equal(t, "cpu:0=10485760|cpu:1=3276800", p.Stages[0].Place)
		assert.Equal(t, "cpu:0|cpu:1", p.Stages[0].Devices())

		_, err = plan("cpu:0=10MiB|cpu:1=5MiB", pack)
		assert.ErrorIs(t, err, packer.ErrNoFit)
		assert.ErrorContains(t, err, "device cpu:1: budget 5.0 MiB")
	}
	p, err := plan("cpu:0|cpu:1=9MiB", pipeline.Balanced)
	require.NoError(t, err)
	assert.Zero(t, p.Stages[0].Budget, "one of them has none")
}
