package tokenizer_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

// FuzzNew: whatever the file says, New answers, and a tokenizer that it makes
// works.
func FuzzNew(f *testing.F) {
	f.Add(gguftest.Build(gguftest.Vocabulary(288), nil), "the <s>ä")
	f.Add(gguftest.Build(append(gguftest.Vocabulary(288), gguftest.KV{Key: "tokenizer.ggml.add_eos_token", Value: true}), nil), "a")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		file, err := gguf.Parse("fuzz", data)
		if err != nil {
			return
		}
		tok, err := tokenizer.New(file)
		if err != nil {
			require.Regexp(t, "^fuzz: ", err.Error())
			require.Less(t, len(err.Error()), 1000)
			return
		}
		if bos, ok := tok.BOS(); ok {
			prompt, ids := tok.Prompt(tokenizer.WithControl(text)), tok.Encode(tokenizer.WithControl(text))
			if len(ids) > 0 && ids[0] == bos {
				require.Equal(t, ids, prompt, "it has a BOS already")
			} else if len(prompt) > len(ids) {
				require.Equal(t, append([]int32{bos}, ids...), prompt)
			} else {
				require.Equal(t, ids, prompt)
			}
		}
		for _, id := range append(tok.Prompt(tokenizer.WithControl(text)), tok.Encode(tokenizer.Plain(text))...) {
			require.Less(t, int(id), tok.Size())
			require.GreaterOrEqual(t, id, int32(0))
		}
		require.LessOrEqual(t, tok.Least(text), len(tok.Encode(tokenizer.WithControl(text))))
		require.LessOrEqual(t, tok.Least(text), len(tok.Encode(tokenizer.Plain(text))))
		decoded := []byte(nil)
		d := tokenizer.Begin(tok)
		for _, id := range tok.Prompt(tokenizer.WithControl(text)) {
			before := len(decoded)
			decoded = d.Append(decoded, id)
			require.True(t, utf8.Valid(decoded[before:]))
		}
		require.True(t, utf8.Valid(d.Flush(decoded)))
	})
}
