package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
)

func TestInspect(t *testing.T) {
	text := done(t, "inspect", storiesFile)
	for _, want := range []string{
		`(?m)^general.architecture +string +"llama"$`,
		`(?m)^tokenizer.ggml.tokens +array of string +512: \["<unk>", "<s>",.*…\]$`,
		`(?m)^llama.block_count +uint32 +5$`,
		`(?m)^token_embd.weight +F32 +64 × 512 +131072$`,
		`(?m)^all +48 +\d+ +1\.\d MiB$`,
	} {
		assert.Regexp(t, want, text)
	}
	doc := document[fileDocument](t, "inspect", storiesFile, "--json")
	assert.Equal(t, "llama", doc.Metadata["general.architecture"])
	assert.Equal(t, 5.0, doc.Metadata["llama.block_count"])
	array := doc.Metadata["tokenizer.ggml.tokens"].(map[string]any)
	assert.Equal(t, 512.0, array["length"])
	assert.Equal(t, "array of string", array["type"])
	assert.Len(t, array["first"], shownElements)
	require.Len(t, doc.Tensors, 48)
	bytes, parameters := 0, uint64(0)
	for _, x := range doc.Tensors {
		bytes += x.Bytes
		n := uint64(1)
		for _, d := range x.Shape {
			n *= d
		}
		parameters += n
	}
	assert.Equal(t, []total{{"F32", 48, parameters, int64(bytes)}}, doc.Types)
	assert.Equal(t, parameters, doc.Parameters)
	info, err := os.Stat(storiesFile)
	require.NoError(t, err)
	assert.Equal(t, info.Size(), doc.Bytes)
}

// Whatever a file says can be shown: strange types, hostile names, a vocabulary
// alone, nothing at all.
func TestInspectStrangeFiles(t *testing.T) {
	hostile := writeFile(t, "hostile.gguf", gguftest.Build([]gguftest.KV{
		{Key: "general.architecture", Value: "no\x1bsuch"},
		{Key: "key\x1b]0;title\a\n", Value: "\x1b[2J\xff" + strings.Repeat("long", 100)},
		{Key: "not.a.number", Value: float32(math.NaN())},
		{Key: strings.Repeat("k", 500), Value: []float64{math.Inf(1), 2}},
		{Key: "empty", Value: []string{}},
	}, []gguftest.Tensor{
		{Name: "odd\r\nname", Type: gguf.IQ2_XXS, Dims: []uint64{256, 3}},
		{Name: "b", Type: gguf.I8, Dims: []uint64{7}},
	}))
	text := done(t, "inspect", hostile)
	for _, c := range text {
		require.True(t, c == '\n' || c >= ' ' && c != '\uFFFD', "%q", c)
	}
	for _, want := range []string{`key\x1b]0;title\a\n`, `"\x1b[2J\xfflong`, `no\x1bsuch`, `odd\r\nname`, "IQ2_XXS", "256 × 3", "kkk…"} {
		assert.Contains(t, text, want)
	}
	doc := document[fileDocument](t, "inspect", hostile, "--json")
	assert.Equal(t, "NaN", doc.Metadata["not.a.number"])
	assert.Equal(t, []any{"+Inf", 2.0}, doc.Metadata[strings.Repeat("k", 500)].(map[string]any)["first"])
	assert.Equal(t, []any{}, doc.Metadata["empty"].(map[string]any)["first"])
	assert.Equal(t, []total{{"IQ2_XXS", 1, 768, 198}, {"I8", 1, 7, 7}}, doc.Types)

	vocabulary := writeFile(t, "vocab.gguf", gguftest.Build(gguftest.Vocabulary(300), nil))
	assert.Contains(t, done(t, "inspect", vocabulary), "no tensors")
	nothing := writeFile(t, "nothing.gguf", gguftest.Build(nil, nil))
	empty := document[fileDocument](t, "inspect", nothing, "--json")
	assert.NotNil(t, empty.Tensors)
	assert.NotNil(t, empty.Types)
}

func TestTokenize(t *testing.T) {
	tokenize := func(args ...string) string {
		return done(t, append([]string{"tokenize", "-m", storiesFile}, args...)...)
	}
	assert.Equal(t, "1,403,407,261,378\n", tokenize(opening))
	assert.Equal(t, "403,407,261,378\n", tokenize("--plain", opening))
	assert.Equal(t, "1\n", tokenize(""))
	assert.Equal(t, "\n", tokenize("", "--plain"))
	assert.Equal(t, "1,410,464,444\n", tokenize("--", "-x"))

	args := []string{"tokenize", "-m", storiesFile, "--json"}
	assert.Equal(t, tokenizeDocument{[]int32{1, 261, 2}, []string{"<s>", "▁a", "</s>"}},
		document[tokenizeDocument](t, append(args, "a</s>")...))
	plain := document[tokenizeDocument](t, append(args, "--plain", "a</s>\nb")...)
	assert.NotContains(t, plain.Tokens, int32(2))
	assert.Contains(t, plain.Pieces, "<0x0A>")
	assert.Equal(t, "{\"tokens\":[],\"pieces\":[]}\n", done(t, append(args, "--plain", "")...))
}

func TestTokenizeWithAVocabulary(t *testing.T) {
	vocabulary := writeFile(t, "vocab.gguf", gguftest.Build(gguftest.Vocabulary(300), nil))
	assert.Equal(t, "1,259,261,265,260,259\n", done(t, "tokenize", "-m", vocabulary, "bfa "))
	model := writeFile(t, "other.gguf", gguftest.Build([]gguftest.KV{{Key: "tokenizer.ggml.model", Value: "rwkv"}}, nil))
	failed(t, leat(t, "tokenize", "-m", model, "a"), "rwkv")
}

func TestLogits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.f32")
	args := []string{"logits", "-m", storiesFile, "--tokens", "1,403, 407,261,378"}
	assert.Empty(t, done(t, append(args, "-o", path)...))
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, want, 5*512*4)

	// The last row's largest logit is what greedy decoding draws.
	row := want[4*512*4:]
	best, at := float32(math.Inf(-1)), 0
	for i := range 512 {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:])); x > best {
			best, at = x, i
		}
	}
	assert.Equal(t, document[runDocument](t, greedy("-n", "1", "--json")...).Tokens[0], int32(at))

	doc := document[logitsDocument](t, append(args, "-o", path, "--json", "--max-batch", "2", "--devices", "cpu/2")...)
	assert.Equal(t, logitsDocument{5, 512, path}, doc)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "stages and batches change nothing")
	assert.Equal(t, string(want), done(t, append(args, "-o", "-")...))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

func TestLogitsFailures(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "out.f32")
	logits := func(tokens string, more ...string) outcome {
		return leat(t, append([]string{"logits", "-m", storiesFile, "-o", path, "--tokens", tokens}, more...)...)
	}
	failed(t, logits("1,512"), "token 512", "511")
	failed(t, logits("18446744073709551615"), "token 18446744073709551615")
	failed(t, logits("1"+strings.Repeat(",2", 128)), "129 tokens", "128")
	failed(t, logits("1,2,3", "--ctx", "2"), "3 tokens", "holds 2")
	failed(t, logits("1", "-o", filepath.Join(folder, "no", "out")), "can't be written")
	failed(t, logits("1", "-o", folder), "is a folder")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left, "nothing half is left")

	// A file that was there stays as it was.
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	failed(t, logits("1,2,3", "--ctx", "2"))
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(old))
}

func TestOutputThroughALink(t *testing.T) {
	folder := t.TempDir()
	target, link := filepath.Join(folder, "target"), filepath.Join(folder, "link")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	if err := os.Symlink(target, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	done(t, "logits", "-m", storiesFile, "--tokens", "1", "-o", link)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	data, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Len(t, data, 512*4)
	done(t, "logits", "-m", storiesFile, "--tokens", "1", "-o", os.DevNull)
	_, err = os.Stat(os.DevNull)
	require.NoError(t, err)
}
