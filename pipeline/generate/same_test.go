package generate_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// The plan's first promise: a request's logits have the same bits whatever
// shares its batch, however many stages and cores there are, and however its
// prompt was chunked.
func TestSameBits(t *testing.T) {
	models := []string{"../../internal/stories/stories260K.gguf"}
	for _, format := range slices.Concat(onGPUs, onCPUs) {
		models = append(models, filepath.Join(shared, "models", "tiny-llama-"+format+".gguf"))
	}
	for i, path := range models[:stagetest.Fewer(len(models))] {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, err := model.Open(path)
			if err != nil {
				t.Skip("the model is not beside the repository: ", err)
			}
			defer m.Close()
			caches := []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0}
			if testing.Short() || i > len(onGPUs) {
				caches = caches[1:2]
			}
			for _, kv := range caches {
				t.Run(kv.String(), func(t *testing.T) { sameBits(t, m, kv) })
			}
		})
	}
}

// setting is how a model is run.
type setting struct {
	devices  string
	maxBatch int
	company  int // other requests at the same time
}

func sameBits(t *testing.T, m *model.Model, kv kernels.Type) {
	sameLogits(t, m, kv, []setting{
		{"cpu:0", 512, 0}, // one core, all at once, alone
		{"cpu", 512, 0},
		{"cpu/2", 512, 0},
		{"cpu,cpu,cpu", 512, 0},
		{"cpu/5", 512, 0},
		{"cpu:0,cpu,cpu:0", 512, 0},
		{"cpu", 1, 0},
		{"cpu/2", 2, 0},
		{"cpu/3", 7, 0},
		{"cpu", 33, 0},
		{"cpu/2", 50, 15},
		{"cpu/3", 512, 15},
	})
}

// sameLogits runs a model in each of the settings, and wants the same logits.
func sameLogits(t *testing.T, m *model.Model, kv kernels.Type, settings []setting) {
	const length = 77 // more than two pages
	tokens := make([]int32, length)
	for i := range tokens {
		tokens[i] = int32(3 + (i*i*31+i*7)%500)
	}
	if _, err := generate.NewPlan(t.Context(), m, generate.WithKV(kv), on(settings[0].devices)); err != nil {
		require.ErrorContains(t, err, "multiple of 32")
		t.Skip("this model's heads don't fit the cache's blocks")
	}
	var want []float32
	for _, c := range settings {
		name := fmt.Sprintf("%s, batches of %d, among %d", c.devices, c.maxBatch, c.company)
		options := []generate.Option{generate.WithKV(kv), generate.WithMaxSeqs(16), on(stagetest.OneKind(t, c.devices)), pipeline.WithMaxBatch(c.maxBatch)}
		e, err := generate.New(t.Context(), m, options...)
		require.NoError(t, err, name)
		var others sync.WaitGroup
		for i := range c.company {
			others.Go(func() {
				_, err := e.Generate(t.Context(), generate.Request{Tokens: tokens[i : 3*i+1], IgnoreEnd: true, MaxTokens: 40})
				assert.NoError(t, err)
			})
		}
		got := logits(t, e, tokens)
		others.Wait()
		require.NoError(t, e.Close())
		if want == nil {
			want = got
		}
		for i := range want {
			if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
				t.Fatalf("%s: logit %d of token %d is %v, it was %v", name, i%m.Vocab, i/m.Vocab, got[i], want[i])
			}
		}
	}
}
