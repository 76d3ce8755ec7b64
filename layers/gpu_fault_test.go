package layers_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// spoils hands on the row 3, 4, by an op that the device itself finds wrong in every
// third batch, while the host goes on. Batches have one row.
type spoils struct {
	batches atomic.Int64
}

func (*spoils) Name() string       { return "spoils" }
func (*spoils) Shape() stage.Shape { return stage.Shape{Input: 1, Width: 2} }
func (*spoils) Cost(device.Info, stage.Config) (packer.Cost, error) {
	return packer.Cost{Fixed: 1}, nil
}

func (l *spoils) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	w, err := layers.Matrix("row", 1, 2, []float32{3, 4})
	if err != nil {
		return nil, err
	}
	r := &spoiling{layer: l}
	if r.table, err = q.Pack(ctx, w); err != nil {
		return nil, err
	}
	h := kernels.NewHeader(1, 1)
	h.Append(5, 0, 0, true) // a token that the table doesn't have
	if r.wrong.Buf, err = q.Device().Alloc(kernels.HeaderBytes(1, 1, 0)); err != nil {
		return nil, err
	}
	r.wrong.N, r.wrong.Outputs = 1, 1
	e, err := q.NewEvent()
	if err != nil {
		return nil, err
	}
	q.Begin()
	q.Upload(r.wrong.Buf, 0, h.Encode())
	q.Record(e)
	q.End()
	return r, e.Wait(ctx)
}

type spoiling struct {
	layer *spoils
	table kernels.Weight
	wrong kernels.Rows
}

func (r *spoiling) Forward(p *stage.Pass, _, out kernels.Tensor) error {
	rows := p.Rows
	if r.layer.batches.Add(1)%3 == 0 {
		rows = r.wrong
	}
	p.Queue.Embed(out, r.table, rows)
	return nil
}

func (r *spoiling) Close() error {
	_ = r.wrong.Buf.Free()
	return r.table.Free()
}

// A batch that fails on a GPU before a function gets its rows has the error of the layer
// that failed, and the batches behind it have their results.
func TestAFunctionBehindALayerThatFailsOnAGPU(t *testing.T) {
	const calls = 30
	for _, list := range []string{"cuda:0", "cuda:0@1,cuda:1@1", "cuda:0@1,cpu:0@1"} {
		for _, direct := range []bool{true, false} {
			emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: !direct, Fault: "slow:0@100us"})
			sum := function(t, "sum", 2, 1, func(dst, src []float32) error { dst[0] = src[0] + src[1]; return nil })
			sum.PerRow = 1e9
			p := open(t, []stage.Layer{new(spoils), sum}, 1, pipeline.WithDevices(list), pipeline.WithMaxBatch(1), pipeline.WithFailureLimit(0))
			var failed atomic.Int64
			var callers sync.WaitGroup
			for range calls {
				callers.Go(func() {
					y, err := p.Do(context.Background(), []float32{0})
					if err != nil {
						failed.Add(1)
						var e *stage.Error
						if assert.ErrorAs(t, err, &e, list) {
							assert.Equal(t, 0, e.Stage, "%s: %v", list, err)
							assert.ErrorContains(t, err, "token 5", list)
						}
						return
					}
					assert.Equal(t, []float32{7}, y, list)
				})
			}
			callers.Wait()
			assert.EqualValues(t, calls/3, failed.Load(), list)
			require.NoError(t, p.Close())
		}
	}
}

// When a GPU is lost, the calls end, and so does the pipeline.
func TestAFunctionOnAGPUThatIsLost(t *testing.T) {
	for _, at := range []string{"vanish:0@3", "vanish:0@4", "vanish:0@7", "cuMemcpyDtoHAsync:1+", "cuMemcpyDtoHAsync:2+"} {
		emulator.Use(t, emulator.Machine{GPUs: 1, Fault: at})
		network := []stage.Layer{
			dense(t, "a", 2, 2, kernels.ReLU),
			function(t, "f", 2, 2, func(dst, src []float32) error { copy(dst, src); return nil }),
			dense(t, "b", 2, 2, kernels.ReLU),
		}
		p, err := pipeline.New(t.Context(), network, pipeline.WithInput(2), pipeline.WithDevices("cuda:0"), pipeline.WithMaxBatch(1))
		require.NoError(t, err, at)
		var failed error
		for range 10 {
			if _, failed = p.Do(t.Context(), values(1, 2)); failed != nil {
				break
			}
		}
		assert.ErrorContains(t, failed, "cuda:0", at)
		_ = p.Close() // what was lost can't be freed
	}
}
