package gguftest_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
)

func TestLlamaBuildsAFileOfEachType(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_K, gguf.Q6_K} {
		f, err := gguf.Parse("llama", gguftest.Llama{Type: typ, Width: 256, Hidden: 512}.Build())
		require.NoError(t, err)
		assert.Len(t, f.Tensors(), 3+2*9)
		w, ok := f.Tensor("blk.1.ffn_down.weight")
		require.True(t, ok)
		assert.Equal(t, typ, w.Type)
		assert.Equal(t, []uint64{512, 256}, w.Dims)

		// Weights of a matrix have a deviation of 1/sqrt(columns).
		var sum, squares float64
		x := numbers(t, w)
		require.Len(t, x, 512*256)
		for _, v := range x {
			sum += v
			squares += v * v
		}
		assert.InDelta(t, 0, sum/float64(len(x)), 0.001, typ)
		assert.InEpsilon(t, 1/math.Sqrt(512), math.Sqrt(squares/float64(len(x))), 0.02, typ)
	}
}

// numbers decodes a tensor.
func numbers(t *testing.T, w gguf.Tensor) (x []float64) {
	le := binary.LittleEndian
	_, size := w.Type.Block()
	data, err := w.Read()
	require.NoError(t, err)
	for b := data; len(b) > 0; b = b[size:] {
		switch w.Type {
		case gguf.F32:
			x = append(x, float64(math.Float32frombits(le.Uint32(b))))
		case gguf.F16:
			x = append(x, half(le.Uint16(b)))
		case gguf.BF16:
			x = append(x, float64(math.Float32frombits(uint32(le.Uint16(b))<<16)))
		case gguf.Q8_0:
			for _, q := range b[2:34] {
				x = append(x, half(le.Uint16(b))*float64(int8(q)))
			}
		case gguf.Q4_0:
			for _, q := range b[2:18] {
				x = append(x, half(le.Uint16(b))*float64(int(q&15)-8), half(le.Uint16(b))*float64(int(q>>4)-8))
			}
		case gguf.Q4_K:
			d, dmin, s := half(le.Uint16(b)), half(le.Uint16(b[2:])), b[4:16]
			for i := range 256 {
				j := i / 32
				scale, minimum := s[j%4]&63, s[j%4+4]&63
				if j >= 4 {
					scale, minimum = s[j+4]&15|s[j-4]>>6<<4, s[j+4]>>4|s[j]>>6<<4
				}
				q := b[16+j/2*32+i%32] >> (j % 2 * 4) & 15
				x = append(x, d*float64(scale)*float64(q)-dmin*float64(minimum))
			}
		case gguf.Q6_K:
			for i := range 256 {
				part, r := i/128, i%128
				q := b[part*64+r%64]>>(r/64*4)&15 | b[128+part*32+r%32]>>(r/32*2)&3<<4
				x = append(x, half(le.Uint16(b[208:]))*float64(int8(b[192+i/16]))*float64(int(q)-32))
			}
		}
	}
	return x
}

func half(h uint16) float64 {
	exponent, mantissa := int(h>>10&31), float64(h&0x3ff)
	x := math.Ldexp(1024+mantissa, exponent-25)
	if exponent == 0 {
		x = math.Ldexp(mantissa, -24)
	}
	if h>>15 == 1 {
		return -x
	}
	return x
}

func TestLlamaCanBeChanged(t *testing.T) {
	f, err := gguf.Parse("llama", gguftest.Llama{
		Arch: "qwen2", Tied: true, Experts: 4, Blocks: 1,
		KVs:         []gguftest.KV{{Key: "qwen2.block_count", Value: "many"}, {Key: "more", Value: true}},
		Tensors:     []gguftest.Tensor{{Name: "output_norm.weight", Dims: []uint64{7}}, {Name: "new", Dims: []uint64{1}}},
		DropKeys:    []string{"general.name"},
		DropTensors: []string{"blk.0.attn_q.weight"},
	}.Build())
	require.NoError(t, err)
	_, _, err = f.Uint("qwen2.block_count")
	assert.ErrorContains(t, err, "is of type string")
	_, ok, err := f.Bool("more")
	assert.NoError(t, err)
	assert.True(t, ok)
	_, ok = f.Value("general.name")
	assert.False(t, ok)
	for _, name := range []string{"new", "blk.0.attn_v.bias", "blk.0.ffn_gate_inp.weight", "blk.0.ffn_down_exps.weight"} {
		_, ok = f.Tensor(name)
		assert.True(t, ok, name)
	}
	for _, name := range []string{"output.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.weight"} {
		_, ok = f.Tensor(name)
		assert.False(t, ok, name)
	}
	norm, _ := f.Tensor("output_norm.weight")
	assert.Equal(t, []uint64{7}, norm.Dims)
}
