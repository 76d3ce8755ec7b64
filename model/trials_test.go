package model_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/stage"
)

// trial returns the path of a file that is beside the repository.
func trial(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("../../shared/trials", name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("the trials are not beside this repository")
	}
	return path
}

func writeModel(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// A model that is closed says so, whatever lies in its memory since.
func TestUseAfterClose(t *testing.T) {
	a, err := model.Open(writeModel(t, gguftest.Llama{Seed: 1}.Build()))
	require.NoError(t, err)
	plan, err := generate.NewPlan(t.Context(), a, pipeline.WithDevices("cpu"))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	b, err := model.Open(writeModel(t, gguftest.Llama{Seed: 2}.Build()))
	require.NoError(t, err)
	defer b.Close()

	_, err = plan.Start(t.Context())
	require.ErrorIs(t, err, model.ErrClosed)
	require.ErrorContains(t, err, a.File().Name()+": model closed")
	rig := kerneltest.Backend{}.On(t, kerneltest.CPU(t, 1))
	for _, l := range a.Layers {
		before := rig.Q.Device().Allocated()
		_, err := l.Load(t.Context(), rig.Q, stage.Config{MaxRows: 1, MaxOutputs: 1, MaxTables: 1, Pages: 1, KV: kernels.F16})
		require.ErrorIs(t, err, model.ErrClosed, l.Name())
		require.Equal(t, before, rig.Q.Device().Allocated())
	}
	plan, err = generate.NewPlan(t.Context(), a, pipeline.WithDevices("cpu"))
	if err == nil {
		_, err = plan.Start(t.Context())
	}
	require.ErrorIs(t, err, model.ErrClosed)
	require.NotEmpty(t, a.Tokenizer.Prompt(tokenizer.Plain("a")), "the tokenizer has kept nothing of the file")
}

// A model whose file is cut short or rewritten before it is loaded is an error that
// names file and weight.
func TestAFileThatChangesBeforeItIsLoaded(t *testing.T) {
	whole := gguftest.Llama{}.Build()
	for _, change := range []func(path string) error{
		func(path string) error { return os.Truncate(path, 100) },
		func(path string) error { return os.Truncate(path, int64(len(whole))-1) },
		func(path string) error {
			if err := os.WriteFile(path, make([]byte, len(whole)), 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute))
		},
	} {
		path := writeModel(t, whole)
		m, err := model.Open(path)
		require.NoError(t, err)
		plan, err := generate.NewPlan(t.Context(), m, pipeline.WithDevices("cpu"))
		require.NoError(t, err)
		require.NoError(t, change(path))
		_, err = plan.Start(t.Context())
		require.ErrorContains(t, err, path+": the file was ")
		require.ErrorContains(t, err, "while it was open")
		require.NoError(t, m.Close())
	}
}

// While a file is opened and loaded it is cut short, overwritten and restored. What
// comes is a model or an error, every time.
func TestAFileThatChangesWhileItIsLoaded(t *testing.T) {
	whole := gguftest.Llama{Vocab: 2000, Seed: 3}.Build()
	path := writeModel(t, whole)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	require.NoError(t, loaded(t, path))
	loading := time.Since(began)

	good, bad := 0, 0
	for range 200 {
		when, cut, at := time.Now().Add(rand.N(2*loading)), rng.Int64N(int64(len(whole))), rng.Int64N(int64(len(whole)))
		var writer sync.WaitGroup
		writer.Go(func() {
			for time.Now().Before(when) {
				runtime.Gosched()
			}
			assert.NoError(t, file.Truncate(cut))
			_, err := file.WriteAt(bytes.Repeat([]byte{0xff}, 5000), at)
			assert.NoError(t, err)
			_, err = file.WriteAt(whole, 0)
			assert.NoError(t, err)
			assert.NoError(t, file.Truncate(int64(len(whole))))
		})
		if err := loaded(t, path); err == nil {
			good++
		} else {
			assert.Less(t, len(err.Error()), 1000)
			bad++
		}
		writer.Wait()
	}
	t.Logf("%d times a model, %d times an error", good, bad)
}

// loaded opens and loads a model.
func loaded(t *testing.T, path string) error {
	m, err := model.Open(path)
	if err != nil {
		return err
	}
	defer func() { assert.NoError(t, m.Close()) }()
	assert.NotEmpty(t, m.Tokenizer.Prompt(tokenizer.Plain("a text")))
	plan, err := generate.NewPlan(t.Context(), m, pipeline.WithDevices("cpu:0"), generate.WithMaxSeqs(1))
	if err != nil {
		return err
	}
	e, err := plan.Start(t.Context())
	if err != nil {
		return err
	}
	return e.Close()
}

// One part of a split model names the parts.
func TestOnePartOfASplitModel(t *testing.T) {
	for _, name := range []string{"tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"} {
		path := trial(t, name)
		_, err := model.Open(path)
		require.ErrorContains(t, err, path+": it is part ")
		require.ErrorContains(t, err, "tiny-00001-of-00002.gguf to tiny-00002-of-00002.gguf")
	}
	f, err := gguf.Open(trial(t, "tiny-00002-of-00002.gguf"))
	require.NoError(t, err)
	defer f.Close()
	_, err = tokenizer.New(f)
	require.ErrorContains(t, err, "it is part 2 of a model in 2 files")
}

// Three ways in which files differ that change nothing.
func TestFilesThatSayTheSame(t *testing.T) {
	want := generated(t, trial(t, "tiny-whole.gguf"))
	for _, name := range []string{"tiny-eos-int32-minus-1.gguf", "tiny-vectors-n-by-1.gguf", "tiny-add-eos.gguf"} {
		require.Equal(t, want, generated(t, trial(t, name)), name)
	}
}

// generated returns a prompt and what the model goes on with.
func generated(t *testing.T, path string) (tokens []int32) {
	t.Helper()
	m, err := model.Open(path)
	require.NoError(t, err)
	defer m.Close()
	plan, err := generate.NewPlan(t.Context(), m, pipeline.WithDevices("cpu"))
	require.NoError(t, err)
	e, err := plan.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	tokens = m.Tokenizer.Prompt(tokenizer.WithControl("a b"))
	for token, err := range e.Stream(t.Context(), generate.Request{Tokens: tokens, MaxTokens: 8}) {
		require.NoError(t, err)
		tokens = append(tokens, token.ID)
	}
	return tokens
}

// A tensor's type code with one wrong bit leaves a hole behind the tensor.
func TestAWrongTypeCodeIsSeenByTheHoleBehindTheTensor(t *testing.T) {
	for _, name := range []string{"blk.0.ffn_up.weight", "output.weight"} {
		data := gguftest.Llama{Type: gguf.F16}.Build()
		f, err := gguf.Parse("m", data)
		require.NoError(t, err)
		x, _ := f.Tensor(name)
		entry := append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name...)
		at := strings.Index(string(data), string(entry)) + len(entry) + 4 + 8*len(x.Dims)
		require.EqualValues(t, gguf.F16, data[at])
		data[at] = byte(gguf.Q8_0)
		_, err = model.Parse("m", data)
		require.ErrorContains(t, err, "m: tensor "+gguf.Quote(name))
		require.ErrorContains(t, err, "as Q8_0")
	}
}

// Numbers are checked as what they are used as.
func TestNumbersBeyondAFloat32(t *testing.T) {
	for key, values := range map[string][]any{
		"llama.attention.layer_norm_rms_epsilon": {1e300, 1e-300, 1e-40, float32(1e-40), float32(-1), float32(0)},
		"llama.rope.freq_base":                   {1e300, 1e-300, 1e-4, float32(0.5)},
	} {
		for _, v := range values {
			_, err := model.Parse("m", gguftest.Llama{KVs: []gguftest.KV{{Key: key, Value: v}}}.Build())
			require.ErrorContains(t, err, "m: key "+key+" is ", "%v", v)
		}
	}
	for _, v := range []any{1e-5, float32(1e-12), 1.0} {
		_, err := model.Parse("m", gguftest.Llama{KVs: []gguftest.KV{{Key: "llama.attention.layer_norm_rms_epsilon", Value: v}}}.Build())
		require.NoError(t, err)
	}
}

// An error is a line of less than 1 KB, however long a file's texts are.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("\x01ä", 300_000)
	name := strings.Repeat("n", 60_000)
	for _, l := range []gguftest.Llama{
		{Arch: long},
		{KVs: []gguftest.KV{{Key: "tokenizer.ggml.model", Value: long}}},
		{KVs: []gguftest.KV{{Key: "llama.rope.scaling.type", Value: long}}},
		{KVs: []gguftest.KV{{Key: "llama.rope.scaling.type", Value: long + long}}},
		{KVs: []gguftest.KV{{Key: name, Value: gguftest.Raw{Kind: 99}}}},
		{Tensors: []gguftest.Tensor{{Name: name, Dims: []uint64{4}}}},
		{Tensors: []gguftest.Tensor{{Name: name, Type: 77, Dims: []uint64{4}}}},
		{Tensors: []gguftest.Tensor{{Name: name, Dims: []uint64{4}, Data: make([]byte, 64)}, {Name: name + "2", Dims: []uint64{4}}}},
	} {
		_, err := model.Parse("m", l.Build())
		require.Error(t, err)
		assert.Less(t, len(err.Error()), 1000)
		assert.NotContains(t, err.Error(), "\n")
	}
}

// What opening takes grows with the file, no faster.
func TestManyBlocksAreReadInLinearTime(t *testing.T) {
	opening := func(blocks int) time.Duration {
		data := gguftest.Llama{Blocks: blocks, Width: 4, Heads: 1, KVHeads: 1, Hidden: 4, Vocab: 288}.Build()
		least := time.Duration(1 << 62)
		for range 3 {
			began := time.Now()
			m, err := model.Parse("m", data)
			require.NoError(t, err)
			require.Len(t, m.Layers, blocks+2)
			least = min(least, time.Since(began))
		}
		return least
	}
	// What else runs on the machine can slow one of the two, but not in every attempt.
	for range 8 {
		few, many := opening(1000), opening(8000)
		t.Logf("1000 blocks in %v, 8000 in %v", few, many)
		if many < 8*4*few {
			return
		}
	}
	assert.Fail(t, "eight times the blocks take over 32 times as long; quadratic would be 64 times")
}

func TestStoriesAreWhole(t *testing.T) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	require.NoError(t, m.File().Whole())
	require.Equal(t, m.Tokenizer.Prompt(tokenizer.WithControl("Once upon")), m.Tokenizer.Prompt(tokenizer.WithControl("<s>Once upon")))
}
