package model_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/gguf"
)

// FuzzModel: whatever the bytes, they are a model or an error of one short line.
func FuzzModel(f *testing.F) {
	small := gguftest.Llama{Vocab: 288, Blocks: 1, Width: 4, Heads: 1, KVHeads: 1, Hidden: 4}
	f.Add(small.Build())
	small.Arch = "qwen2"
	f.Add(small.Build())
	f.Add(gguftest.Llama{Vocab: 288, Blocks: 1, Width: 32, Heads: 2, Hidden: 32, Type: gguf.Q8_0, Tied: true}.Build())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := model.Parse("fuzz", data)
		if err != nil {
			require.Regexp(t, "^fuzz: ", err.Error())
			require.Less(t, len(err.Error()), 1000)
			require.False(t, bytes.ContainsAny([]byte(err.Error()), "\n\r\x1b"))
			return
		}
		require.NotEmpty(t, m.Layers)
		require.Positive(t, m.Context)
		require.Equal(t, m.Tokenizer.Size(), m.Vocab)
		for _, l := range m.Layers {
			s := l.Shape()
			require.True(t, s.Width > 0 && s.Scratch >= 0 && s.Quantized >= 0, l.Name())
		}
		require.NoError(t, m.Close())
	})
}
