package generate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/trace"
	"github.com/leat-dev/leat/stage"
)

// Speeds that are given aren't measured: emulated GPUs would be found slow.
const (
	oneGPU    = "cuda:0"
	threeGPUs = "cuda:0@1,cuda:1@1,cuda:2@1"
)

// On GPUs, too, a request's logits have the same bits wherever the layers stand and
// however its prompt is cut.
func TestSameBitsOnGPUs(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 3})
	settings := []setting{
		{oneGPU, 512, 0},
		{threeGPUs, 512, 0},
		{oneGPU, 7, 0},
		{threeGPUs, 33, 2},
		{"cuda:1@1,cuda:1@1", 2, 0},
	}
	caches := []kernels.Type{kernels.F16, kernels.F32}
	if testing.Short() {
		settings, caches = settings[:4], caches[:1]
	}
	for _, kv := range caches {
		t.Run(kv.String(), func(t *testing.T) { sameLogits(t, parse(t), kv, settings) })
	}
}

// The reference's greedy text comes out of one GPU and of three, before or after the
// CPU, and where GPUs hold so little that blocks spill to the CPU.
func TestGreedyTextOnGPUs(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 3})
	for _, r := range references(t) {
		if r.Greedy == nil || testing.Short() && r.Model != "stories260K.gguf" {
			continue
		}
		t.Run(r.Model, func(t *testing.T) {
			m, err := model.Open(r.path())
			require.NoError(t, err)
			defer m.Close()
			check := func(name string, options ...generate.Option) *generate.Plan {
				t.Helper()
				e, err := generate.New(t.Context(), m, options...)
				require.NoError(t, err, name)
				defer func() { assert.NoError(t, e.Close()) }()
				got, err := e.Generate(t.Context(), generate.Request{Tokens: r.Tokens, MaxTokens: len(r.Greedy), IgnoreEnd: true})
				require.NoError(t, err, name)
				assert.Equal(t, r.Greedy, got.Tokens, name)
				return e.Plan()
			}
			for _, devices := range []string{oneGPU, threeGPUs, "cpu@1,cuda:0@1", "cuda:2@1,cpu@1,cuda:0@1"} {
				check(devices, on(devices))
			}
			if len(m.Layers) < 6 {
				return // too few blocks for three devices to have some each
			}
			p := check("spilt", spilt(t, m)...)
			require.Len(t, p.Stages, 3)
			for i, want := range []string{"cuda:0", "cuda:1", "cpu"} {
				assert.Contains(t, p.Stages[i].Device.Name, want)
			}
		})
	}
}

// spilt is two GPUs that hold a part of a model each, and the CPU for the rest.
func spilt(t *testing.T, m *model.Model) []generate.Option {
	t.Helper()
	p, err := generate.NewPlan(t.Context(), m, on("cuda:0@1,cuda:1@1,cpu@1"), generate.WithMaxSeqs(2))
	require.NoError(t, err)
	require.Len(t, p.Stages, 3)
	list := fmt.Sprintf("cuda:0=%d,cuda:1=%d,cpu", p.Stages[0].Bytes(), p.Stages[1].Bytes())
	return []generate.Option{on(list), pipeline.WithPack(pipeline.FirstFit), pipeline.WithReserve(0), generate.WithMaxSeqs(2)}
}

// A GPU works on one batch while the CPU works on another: one can see it in a trace.
func TestAGPUAndTheCPUOverlap(t *testing.T) {
	for _, list := range []string{"cuda:0@1,cpu:0@20", "cpu:0@4,cuda:0@1"} {
		t.Run(list, func(t *testing.T) {
			emulator.Use(t, emulator.Machine{GPUs: 1})
			var text bytes.Buffer
			tr := trace.New(&text)
			e, err := generate.New(t.Context(), parse(t), on(list), pipeline.WithObserver(tr), pipeline.WithInFlight(2))
			require.NoError(t, err)
			require.Len(t, e.Plan().Stages, 2)
			var wait sync.WaitGroup
			for i := range 8 {
				wait.Go(func() {
					_, err := e.Generate(t.Context(), generate.Request{Prompt: openings[i], MaxTokens: 40, IgnoreEnd: true})
					assert.NoError(t, err)
				})
			}
			wait.Wait()
			busy := e.Stats().Stages[0].Busy + e.Stats().Stages[1].Busy
			require.NoError(t, e.Close())
			require.NoError(t, tr.Close())

			gpu, cpu := computed(t, text.Bytes(), "on cuda:0"), computed(t, text.Bytes(), "on cpu")
			require.Equal(t, len(gpu), len(cpu))
			var together, all float64 // microseconds
			for batch, g := range gpu {
				all += g.took + cpu[batch].took
				for other, c := range cpu {
					if other != batch {
						together += max(0, min(g.at+g.took, c.at+c.took)-max(g.at, c.at))
					}
				}
			}
			t.Logf("%d batches: together %.0f µs of %.0f µs", len(gpu), together, all)
			assert.Positive(t, together)
			assert.InEpsilon(t, float64(busy.Microseconds()), all, 0.1, "what stages report as busy is what the trace shows")
			for batch, g := range gpu {
				first, second := g, cpu[batch]
				if strings.HasPrefix(list, "cpu") {
					first, second = second, first
				}
				assert.LessOrEqual(t, first.at+first.took, second.at+0.01, "batch %d", batch)
			}
		})
	}
}

// slice is when a stage, or its device, worked on a batch, in microseconds.
type slice struct{ at, took float64 }

// computed returns the slices of the stage whose lane has such a name.
func computed(t *testing.T, text []byte, name string) map[int]slice {
	var events []struct {
		Phase string  `json:"ph"`
		Lane  int     `json:"tid"`
		Name  string  `json:"name"`
		At    float64 `json:"ts"`
		Took  float64 `json:"dur"`
		Args  struct {
			Name  string
			Batch int
		}
	}
	require.NoError(t, json.Unmarshal(text, &events))
	lane, latest, slices := -1, 0, map[int]slice{}
	for _, e := range events {
		switch {
		case e.Phase == "M" && e.Name == "thread_name" && strings.Contains(e.Args.Name, name):
			lane = e.Lane
		case e.Phase != "X" || e.Lane != lane:
		case e.Args.Batch > 0:
			latest = e.Args.Batch
			slices[latest] = slice{e.At, e.Took}
		case e.Name == "compute": // a part of the slice before
			slices[latest] = slice{e.At, e.Took}
		}
	}
	return slices
}

// spoilt is a last layer whose logits are no numbers once it has seen a token.
type spoilt struct {
	stage.Layer
	token int32
}

type spoiltRunner struct {
	stage.Runner
	*spoilt
}

func (l *spoilt) Load(ctx context.Context, q kernels.Queue, c stage.Config) (stage.Runner, error) {
	r, err := l.Layer.Load(ctx, q, c)
	return &spoiltRunner{r, l}, err
}

func (r *spoiltRunner) Close() error { return r.Runner.Close() }

func (r *spoiltRunner) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	if err := r.Runner.Forward(p, in, out); err != nil {
		return err
	}
	for i, row := range p.Header.Outputs {
		if p.Header.Tokens[row] != r.token {
			continue
		}
		none := make([]uint32, out.Cols)
		for c := range none {
			none[c] = math.Float32bits(float32(math.NaN()))
		}
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(&none[0])), 4*len(none))
		q.Upload(out.Buf, out.Off+int64(i)*int64(len(bytes)), bytes)
	}
	return nil
}

// Logits that are no numbers end a request in the same way, whether the device or
// the host chooses, and no other.
func TestLogitsThatAreNoNumbers(t *testing.T) {
	const token = 13
	check := func(t *testing.T, devices string) {
		m := parse(t)
		last := len(m.Layers) - 1
		m.Layers[last] = &spoilt{m.Layers[last], token}
		e, err := generate.New(t.Context(), m, on(devices))
		require.NoError(t, err)
		defer func() { assert.NoError(t, e.Close()) }()
		var wait sync.WaitGroup
		for _, how := range []generate.Request{{}, {LogProbs: true}, {Sampling: generate.Sampling{Temperature: 1}}} {
			how.MaxTokens, how.IgnoreEnd = 20, true
			for _, tokens := range [][]int32{{1, 403, token}, {1, 403, 407}} {
				wait.Go(func() {
					r := how
					r.Tokens = tokens
					got, err := e.Generate(t.Context(), r)
					if tokens[2] == token {
						assert.ErrorContains(t, err, "no logit of token 3 is a number")
						assert.Empty(t, got.Tokens)
						return
					}
					assert.NoError(t, err)
					assert.Len(t, got.Tokens, 20)
				})
			}
		}
		wait.Wait()
	}
	t.Run("cpu", func(t *testing.T) { check(t, "cpu") })
	t.Run("cuda", func(t *testing.T) {
		emulator.Use(t, emulator.Machine{GPUs: 1})
		check(t, oneGPU)
	})
}
