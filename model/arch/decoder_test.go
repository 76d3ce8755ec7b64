package arch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/model/gguf"
)

var prompt = []int32{1, 261, 305, 17, 44, 261, 3, 290, 9}

func parseModel(t *testing.T, l gguftest.Llama) *gguf.File {
	t.Helper()
	f, err := gguf.Parse("some.gguf", l.Build())
	require.NoError(t, err)
	return f
}

func logitsOf(t *testing.T, l gguftest.Llama) []float32 {
	t.Helper()
	return run(t, build(t, parseModel(t, l), nil), prompt, len(prompt))
}

// joined is a tensor of several of a file, one after the other.
func joined(t *testing.T, f *gguf.File, name string, dims []uint64, parts ...string) gguftest.Tensor {
	t.Helper()
	all := gguftest.Tensor{Name: name, Dims: dims}
	for _, part := range parts {
		x, ok := f.Tensor(part)
		require.True(t, ok, part)
		all.Type = x.Type
		data, err := x.Read()
		require.NoError(t, err)
		all.Data = append(all.Data, data...)
	}
	return all
}

// A file may have queries, keys and values as one tensor, and gate and up: the
// logits have the same bits.
func TestFusedTensors(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.Q8_0, gguf.Q4_0} {
		plain := gguftest.Llama{Arch: "qwen2", Type: typ}
		f := parseModel(t, plain)
		fused := plain
		for _, b := range []string{"blk.0.", "blk.1."} {
			fused.Tensors = append(fused.Tensors,
				joined(t, f, b+"attn_qkv.weight", []uint64{64, 128}, b+"attn_q.weight", b+"attn_k.weight", b+"attn_v.weight"),
				joined(t, f, b+"attn_qkv.bias", []uint64{128}, b+"attn_q.bias", b+"attn_k.bias", b+"attn_v.bias"),
				joined(t, f, b+"ffn_up.weight", []uint64{64, 256}, b+"ffn_gate.weight", b+"ffn_up.weight"))
			for _, part := range []string{"attn_q", "attn_k", "attn_v"} {
				fused.DropTensors = append(fused.DropTensors, b+part+".weight", b+part+".bias")
			}
			fused.DropTensors = append(fused.DropTensors, b+"ffn_gate.weight")
		}
		kerneltest.SameBits(t, logitsOf(t, plain), logitsOf(t, fused), "fused %v", typ)
	}
}

// A bias of zeros changes nothing, another does; wherever llama may have one.
func TestBiasesOfLlama(t *testing.T) {
	plain := logitsOf(t, gguftest.Llama{})
	for name, n := range map[string]int{"attn_q": 64, "attn_k": 32, "attn_v": 32, "attn_output": 64, "ffn_gate": 128, "ffn_up": 128, "ffn_down": 64} {
		with := func(x float32) gguftest.Llama {
			return gguftest.Llama{Tensors: []gguftest.Tensor{{Name: "blk.1." + name + ".bias", Dims: []uint64{uint64(n)},
				Data: gguftest.F32(append(make([]float32, n-1), x)...)}}}
		}
		kerneltest.SameBits(t, plain, logitsOf(t, with(0)), "%s.bias of zeros", name)
		assert.NotEqual(t, plain, logitsOf(t, with(0.5)), name)
	}
}

// The head's bias is added to the logits.
func TestBiasOfTheHead(t *testing.T) {
	want := logitsOf(t, gguftest.Llama{Arch: "qwen2"})
	bias := make([]float32, 320)
	for i := range bias {
		bias[i] = float32(i) / 64
		for row := range prompt {
			want[row*len(bias)+i] += bias[i]
		}
	}
	got := logitsOf(t, gguftest.Llama{Arch: "qwen2", Tensors: []gguftest.Tensor{{Name: "output.bias", Dims: []uint64{320}, Data: gguftest.F32(bias...)}}})
	kerneltest.SameBits(t, want, got, "output.bias")
}

// Factors of 1 change nothing; one so large that its pair isn't rotated does.
func TestFactorsOfTheRotation(t *testing.T) {
	with := func(factors ...float32) gguftest.Llama {
		return gguftest.Llama{Tensors: []gguftest.Tensor{{Name: "rope_freqs.weight", Dims: []uint64{8}, Data: gguftest.F32(factors...)}}}
	}
	plain := logitsOf(t, gguftest.Llama{})
	kerneltest.SameBits(t, plain, logitsOf(t, with(1, 1, 1, 1, 1, 1, 1, 1)), "factors of 1")
	assert.NotEqual(t, plain, logitsOf(t, with(1, 1, 1, 1, 1, 1, 1, 1e30)))
}

// A key may have a number for each block.
func TestHeadsOfEachBlock(t *testing.T) {
	each := gguftest.Llama{KVs: []gguftest.KV{
		{Key: "llama.attention.head_count", Value: []uint32{4, 4}},
		{Key: "llama.attention.head_count_kv", Value: []int32{2, 2}},
		{Key: "llama.feed_forward_length", Value: []uint32{128, 128}},
	}}
	kerneltest.SameBits(t, logitsOf(t, gguftest.Llama{}), logitsOf(t, each), "lists of the same")

	// The second block has keys and values for each of its heads: those of the
	// file without lists, each twice.
	f := parseModel(t, gguftest.Llama{})
	twice := func(name string) gguftest.Tensor {
		x, _ := f.Tensor(name)
		data, err := x.Read()
		require.NoError(t, err)
		half := len(data) / 2 // a head
		return gguftest.Tensor{Name: name, Dims: []uint64{64, 64}, Data: bytes.Join([][]byte{data[:half], data[:half], data[half:], data[half:]}, nil)}
	}
	each.KVs[1].Value = []int32{2, 4}
	each.Tensors = []gguftest.Tensor{twice("blk.1.attn_k.weight"), twice("blk.1.attn_v.weight")}
	m := build(t, parseModel(t, each), nil)
	kerneltest.SameBits(t, logitsOf(t, gguftest.Llama{}), run(t, m, prompt, 4), "heads of their own")
}

// What a declaration asks for is in the file, or there are errors by name; what
// nothing computes yet is one too.
func TestDeclarationsThatAskForWhatIsNotThere(t *testing.T) {
	change := func(by func(d *decoder)) declaration {
		return func(k *keys) decoder {
			d := llama(k)
			by(&d)
			return d
		}
	}
	first := func(by func(a *attention)) declaration {
		return change(func(d *decoder) {
			a := d.blocks[1][0].part.(attention)
			by(&a)
			d.blocks[1][0].part = a
		})
	}
	positions := gguftest.Llama{Tensors: []gguftest.Tensor{{Name: "position_embd.weight", Dims: []uint64{64, 128}}}}
	for name, c := range map[string]struct {
		declared declaration
		file     gguftest.Llama
		says     string
	}{
		"learned positions": {change(func(d *decoder) { d.embedding.positions = required }), positions, "position_embd.weight) is not supported yet"},
		"sinks":             {first(func(a *attention) { a.sinks = required }), gguftest.Llama{}, "no tensor blk.1.attn_sinks.weight"},
		"a norm of queries": {first(func(a *attention) { a.qNorm = norm{kind: rmsNorm, tensor: "attn_q_norm"} }), gguftest.Llama{}, "no tensor blk.1.attn_q_norm.weight"},
		"a required bias":   {first(func(a *attention) { a.outputBias = required }), gguftest.Llama{}, "no tensor blk.1.attn_output.bias"},
		"no activation":     {change(func(d *decoder) { d.blocks[0][1].part = feedForward{hidden: 128, gated: true} }), gguftest.Llama{}, "block 0: there is no activation 0"},
		"an empty block":    {change(func(d *decoder) { d.blocks[0] = nil }), gguftest.Llama{}, "block 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.declared.build(parseModel(t, c.file), "llama")
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, "some.gguf: ")
		})
	}
}
