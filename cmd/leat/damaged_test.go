package main

import (
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
)

// Weights that are no numbers are an error, not a file of NaN.
func TestLogitsThatAreNoNumbers(t *testing.T) {
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
		gain := make([]float32, 64)
		gain[3] = x
		damaged := writeFile(t, "damaged.gguf", gguftest.Llama{Tensors: []gguftest.Tensor{
			{Name: "output_norm.weight", Dims: []uint64{64}, Data: gguftest.F32(gain...)},
			{Name: "output.weight", Dims: []uint64{64, 320}, Data: gguftest.F32(repeated(64*320, 1e5)...)},
		}}.Build())
		out := filepath.Join(t.TempDir(), "out.f32")
		failed(t, leat(t, "logits", "-m", damaged, "--tokens", "1,5", "-o", out), "at position 0 the logit of token ", "weights are damaged")
		assert.NoFileExists(t, out)
	}
}

func repeated(n int, x float32) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = x
	}
	return list
}

// A prompt without an end is refused before it takes much memory.
func TestAPromptWithoutEnd(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := leatWith(t.Context(), zeros{}, "run", "-m", storiesFile)
	runtime.ReadMemStats(&after)
	failed(t, o, "standard input", "longer than 16.0 MiB")
	require.Less(t, after.HeapSys-min(before.HeapSys, after.HeapSys), uint64(128<<20))
}

// zeros is like /dev/zero.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
