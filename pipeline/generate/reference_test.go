package generate_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline/generate"
)

// shared is where the models and what another engine computes on them lie,
// beside the repository. Tests that need them are skipped where they are absent.
const shared = "../../../shared"

// reference is a row of the manifest: what llama.cpp computes in float32 from
// the dequantized weights, and how far its own quantized run is from that.
type reference struct {
	Model  string
	Format string
	Tokens []int32
	Logits string
	Shape  []int   `json:"logits_shape"`
	Peer   float64 `json:"peer_relative_error"`
	Greedy []int32
}

func references(t *testing.T) []reference {
	data, err := os.ReadFile(filepath.Join(shared, "reference/manifest.json"))
	if err != nil {
		t.Skip("the reference values are not beside the repository: ", err)
	}
	var rows []reference
	require.NoError(t, json.Unmarshal(data, &rows))
	rows = slices.DeleteFunc(rows, func(r reference) bool { return !llama(r.Model) })
	require.NotEmpty(t, rows)
	return rows
}

// onGPUs are the formats whose types all have kernels for GPUs.
var onGPUs = []string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K"}

// onCPUs are the other formats of the reference models.
var onCPUs = []string{"Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_M", "Q5_K_M", "IQ4_NL", "IQ4_XS"}

func llama(model string) bool {
	return model == "stories260K.gguf" || len(model) > 10 && model[:10] == "tiny-llama"
}

func (r reference) path() string { return filepath.Join(shared, "models", r.Model) }

func (r reference) logits(t *testing.T) []float32 {
	data, err := os.ReadFile(filepath.Join(shared, "reference", r.Logits))
	require.NoError(t, err)
	require.Len(t, data, r.Shape[0]*r.Shape[1]*4)
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

func TestLogitsAreAsCloseAsThePeers(t *testing.T) { asClose(t, references(t), on("cpu")) }

func TestLogitsOfGPUsAreAsCloseAsThePeers(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2})
	rows := slices.DeleteFunc(references(t), func(r reference) bool { return !slices.Contains(onGPUs, r.Format) })
	asClose(t, rows, on("cuda:0@1,cuda:1@1"))
}

func asClose(t *testing.T, rows []reference, options ...generate.Option) {
	for _, r := range rows {
		t.Run(r.Model, func(t *testing.T) {
			bound := max(1.1*r.Peer, 1e-5)
			e := open(t, r.path(), append(options, generate.WithKV(kernels.F32))...)
			got := logits(t, e, r.Tokens)
			d := kerneltest.Distance(got, r.logits(t))
			t.Logf("relative error %.3g, the peer's %.3g, bound %.3g", d, r.Peer, bound)
			assert.LessOrEqual(t, d, bound)
		})
	}
}

func TestGreedyTextIsTheReference(t *testing.T) {
	for _, r := range references(t) {
		if r.Greedy == nil {
			continue
		}
		t.Run(r.Model, func(t *testing.T) {
			for _, kv := range []kernels.Type{kernels.F32, kernels.F16} {
				e := open(t, r.path(), generate.WithKV(kv))
				got, err := e.Generate(t.Context(), generate.Request{Tokens: r.Tokens, MaxTokens: len(r.Greedy), IgnoreEnd: true})
				require.NoError(t, err)
				assert.Equal(t, r.Greedy, got.Tokens, "cache of %v", kv)
			}
		})
	}
}
