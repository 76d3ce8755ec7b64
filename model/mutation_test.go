package model_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// TestMutatedFiles opens files that are damaged at random, and runs those that are
// still models: each is a model or an error of one short line that begins with its
// name. LEAT_MUTATIONS is how many, LEAT_MUTATIONS_SEED which.
func TestMutatedFiles(t *testing.T) {
	number := func(key string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(key)); err == nil {
			return n
		}
		return otherwise
	}
	n, seed := number("LEAT_MUTATIONS", 2000), number("LEAT_MUTATIONS_SEED", 1)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
	bases := [][]byte{
		gguftest.Llama{Vocab: 288, Blocks: 1, Width: 32, Hidden: 32}.Build(),
		gguftest.Llama{Vocab: 288, Blocks: 2, Width: 32, Hidden: 64, Type: gguf.Q8_0, Tied: true}.Build(),
		gguftest.Llama{Vocab: 288, Blocks: 1, Width: 256, Heads: 8, Hidden: 256, Type: gguf.Q4_K, KVs: []gguftest.KV{{Key: "llama.attention.layer_norm_rms_epsilon", Value: 1e-5}}}.Build(),
		gguftest.Llama{Vocab: 288, Blocks: 1, Width: 32, Hidden: 32, Arch: "qwen2", Type: gguf.F16}.Build(),
	}
	kinds := map[string]int{}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		data := mutated(rng, bases[i%len(bases)])
		what, err := tried(t.Context(), data)
		if err != nil {
			t.Fatalf("file %d of seed %d: %v", i, seed, err)
		}
		kinds[what]++
	}
	t.Log(kinds)
	require.Greater(t, kinds["refused"], n/4)
	require.Greater(t, kinds["ran"], n/20)
}

// mutated returns a copy with one to four damages, most of them in the header,
// where they say most.
func mutated(rng *rand.Rand, base []byte) []byte {
	data := append([]byte(nil), base...)
	for range 1 + rng.IntN(3) {
		end := len(data)
		if f, err := gguf.Parse("base", base); err == nil && rng.IntN(2) > 0 {
			end = min(end, int(f.Tensors()[0].Offset))
		}
		if end < 16 {
			break
		}
		at := rng.IntN(end - 8)
		switch rng.IntN(8) {
		case 0, 1, 2:
			data[at] ^= 1 << rng.IntN(8)
		case 3:
			data[at] = byte(rng.Uint32())
		case 4: // a number that is at a limit
			limits := []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1}
			binary.LittleEndian.PutUint64(data[at:], limits[rng.IntN(len(limits))])
		case 5: // a stretch from elsewhere
			from, n := rng.IntN(end-8), rng.IntN(64)
			copy(data[at:], append([]byte(nil), data[from:min(from+n, end)]...))
		case 6:
			if rng.IntN(4) == 0 { // a file that is cut
				data = data[:rng.IntN(len(data))]
			} else { // some bytes less
				data = append(data[:at], data[at+1+rng.IntN(7):]...)
			}
		case 7: // some bytes more
			data = append(data[:at], append(make([]byte, 1+rng.IntN(40)), data[at:]...)...)
		}
	}
	return data
}

// tried opens a file and runs it. An error says that it wasn't dealt with as it
// should.
func tried(ctx context.Context, data []byte) (what string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a panic: %v\n%s", r, debug.Stack())
		}
	}()
	m, err := model.Parse("mutated.gguf", data)
	if err != nil {
		return "refused", short(err)
	}
	defer m.Close()
	prompt := m.Tokenizer.Prompt(tokenizer.WithControl("<s> the</s>ab\xff"))
	p, err := generate.NewPlan(ctx, m, pipeline.WithDevices("cpu:0"), generate.WithMaxSeqs(1), generate.WithContext(32))
	if err != nil {
		return "not planned", short(err)
	}
	e, err := p.Start(ctx)
	if err != nil {
		return "not started", short(err)
	}
	defer func() {
		if failed := e.Close(); err == nil {
			err = failed
		}
	}()
	for token, err := range e.Stream(ctx, generate.Request{Tokens: prompt, MaxTokens: 3}) {
		if err != nil {
			return "failed", short(err)
		}
		if len(token.Text) > 1<<10 {
			return "ran", fmt.Errorf("a text of %d bytes", len(token.Text))
		}
	}
	return "ran", nil
}

func short(err error) error {
	text := err.Error()
	for _, c := range text {
		if c < ' ' {
			return fmt.Errorf("an error of several lines: %q", text)
		}
	}
	if len(text) >= 1000 {
		return fmt.Errorf("an error of %d bytes: %.2000s", len(text), text)
	}
	return nil
}
