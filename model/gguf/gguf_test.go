package gguf_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

// everything is a valid file with a value of each kind and two tensors.
func everything() []byte {
	return gguftest.Build([]gguftest.KV{
		{Key: "u8", Value: uint8(200)},
		{Key: "i8", Value: int8(-3)},
		{Key: "u16", Value: uint16(60000)},
		{Key: "i16", Value: int16(-30000)},
		{Key: "u32", Value: uint32(4000000000)},
		{Key: "i32", Value: int32(-2000000000)},
		{Key: "u64", Value: uint64(math.MaxUint64)},
		{Key: "i64", Value: int64(7)},
		{Key: "f32", Value: float32(1e-5)},
		{Key: "f64", Value: 0.1},
		{Key: "nan", Value: float32(math.NaN())},
		{Key: "yes", Value: true},
		{Key: "text", Value: "a \"leat\"\nof water"},
		{Key: "strings", Value: []string{"<unk>", "", "▁the"}},
		{Key: "floats", Value: []float32{0, -1.5}},
		{Key: "bytes", Value: []uint8{1, 2, 3, 4, 5, 6, 7, 8}},
		{Key: "wide", Value: []int64{1, -1, 1 << 40}},
		{Key: "bools", Value: []bool{true, false}},
		{Key: "none", Value: []uint32{}},
	}, []gguftest.Tensor{
		{Name: "a", Type: gguf.F32, Dims: []uint64{3}, Data: gguftest.F32(1, 2, 3)},
		{Name: "b", Type: gguf.Q8_0, Dims: []uint64{64, 2}},
	})
}

func TestParseReadsEveryKindOfValue(t *testing.T) {
	f, err := gguf.Parse("mem", everything())
	require.NoError(t, err)
	assert.Equal(t, "mem", f.Name())
	assert.EqualValues(t, 3, f.Version())
	assert.EqualValues(t, 32, f.Alignment())
	assert.EqualValues(t, len(everything()), f.Size())
	assert.Equal(t, "u8", f.Keys()[0])
	assert.Len(t, f.Keys(), 19)

	for key, want := range map[string]uint64{"u8": 200, "u16": 60000, "u32": 4000000000, "u64": math.MaxUint64, "i64": 7} {
		x, ok, err := f.Uint(key)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, want, x, key)
	}
	for key, want := range map[string]int64{"u8": 200, "i8": -3, "i16": -30000, "i32": -2000000000, "i64": 7} {
		x, ok, err := f.Int(key)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, want, x, key)
	}
	x, ok, err := f.Float("f32")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, float64(float32(1e-5)), x)
	x, _, err = f.Float("f64")
	require.NoError(t, err)
	assert.Equal(t, 0.1, x)
	b, ok, err := f.Bool("yes")
	require.NoError(t, err)
	assert.True(t, ok && b)
	s, ok, err := f.String("text")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "a \"leat\"\nof water", s)
	list, ok, err := f.Strings("strings")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, []string{"<unk>", "", "▁the"}, list)
	floats, ok, err := f.Floats("floats")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, []float32{0, -1.5}, floats)
	ints, ok, err := f.Ints("bytes")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, []int32{1, 2, 3, 4, 5, 6, 7, 8}, ints)
	ints, ok, err = f.Ints("none")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Empty(t, ints)
}

func TestAnAbsentKeyIsNoError(t *testing.T) {
	f, err := gguf.Parse("mem", gguftest.Build(nil, nil))
	require.NoError(t, err)
	var ok [8]bool
	var errs [8]error
	_, ok[0], errs[0] = f.Uint("x")
	_, ok[1], errs[1] = f.Float("x")
	_, ok[2], errs[2] = f.Bool("x")
	_, ok[3], errs[3] = f.String("x")
	_, ok[4], errs[4] = f.Strings("x")
	_, ok[5], errs[5] = f.Floats("x")
	_, ok[6], errs[6] = f.Ints("x")
	_, ok[7], errs[7] = f.Int("x")
	assert.Zero(t, ok)
	assert.Zero(t, errs)
	v, found := f.Value("x")
	assert.False(t, found)
	assert.Nil(t, v.Any(-1), "the zero Value can be printed too")
	assert.NotPanics(t, func() { _ = v.String() })
}

func TestAWrongTypeNamesFileKeyAndBothTypes(t *testing.T) {
	f, err := gguf.Parse("mem", everything())
	require.NoError(t, err)
	is := func(err error, want string) {
		t.Helper()
		assert.EqualError(t, err, want)
	}
	_, _, err = f.Uint("text")
	is(err, `mem: key "text" is of type string, not an integer`)
	_, _, err = f.Uint("i8")
	is(err, `mem: key "i8" is -3, and must not be negative`)
	_, _, err = f.Uint("bytes")
	is(err, `mem: key "bytes" is of type array of uint8, not an integer`)
	_, _, err = f.Float("u8")
	is(err, `mem: key "u8" is of type uint8, not float32 or float64`)
	_, _, err = f.Bool("u8")
	is(err, `mem: key "u8" is of type uint8, not bool`)
	_, _, err = f.String("strings")
	is(err, `mem: key "strings" is of type array of string, not string`)
	_, _, err = f.Strings("text")
	is(err, `mem: key "text" is of type string, not array of string`)
	_, _, err = f.Floats("bytes")
	is(err, `mem: key "bytes" is of type array of uint8, not array of float32`)
	_, _, err = f.Int("text")
	is(err, `mem: key "text" is of type string, not an integer`)
	_, _, err = f.Int("u64")
	is(err, `mem: key "u64" is 18446744073709551615, which doesn't fit in a signed 64-bit integer`)
	_, _, err = f.Ints("floats")
	is(err, `mem: key "floats" is of type array of float32, not array of integers`)
	_, _, err = f.Ints("wide")
	is(err, `mem: key "wide": element 2 is 1099511627776, which doesn't fit in a signed 32-bit integer`)
}

func TestValuesPrintShortly(t *testing.T) {
	f, err := gguf.Parse("mem", everything())
	require.NoError(t, err)
	for key, want := range map[string]struct {
		typ, text, json string
		n               int
	}{
		"u64":     {"uint64", "18446744073709551615", "18446744073709551615", 1},
		"f32":     {"float32", "1e-05", "0.00001", 1},
		"nan":     {"float32", "NaN", `"NaN"`, 1},
		"yes":     {"bool", "true", "true", 1},
		"text":    {"string", `"a \"leat\"\nof water"`, `"a \"leat\"\nof water"`, 1},
		"strings": {"array of string", `["<unk>", "", "▁the"]`, `["\u003cunk\u003e",""]`, 3},
		"bytes":   {"array of uint8", "[1, 2, 3, 4, 5, 6, …]", "[1,2]", 8},
		"none":    {"array of uint32", "[]", "[]", 0},
	} {
		v, ok := f.Value(key)
		require.True(t, ok, key)
		assert.Equal(t, want.typ, v.TypeName(), key)
		assert.Equal(t, want.text, v.String(), key)
		assert.Equal(t, want.n, v.Len(), key)
		j, err := json.Marshal(v.Any(2))
		require.NoError(t, err, key)
		assert.Equal(t, want.json, string(j), key)
	}
	v, _ := f.Value("bytes")
	assert.Len(t, v.Any(-1), 8)
	assert.Equal(t, gguf.Uint8, v.Elem())
	assert.Equal(t, gguf.Array, v.Kind())
}

func TestTensorsLieWhereTheFileSays(t *testing.T) {
	f, err := gguf.Parse("mem", everything())
	require.NoError(t, err)
	require.Len(t, f.Tensors(), 2)
	a, ok := f.Tensor("a")
	require.True(t, ok)
	data, err := a.Read()
	require.NoError(t, err)
	assert.Equal(t, gguftest.F32(1, 2, 3), data)
	assert.Equal(t, everything()[a.Offset:a.Offset+12], data)
	m, ok := a.Matrix(1, 3)
	require.True(t, ok)
	assert.Equal(t, kernels.Matrix{Name: "a", Type: kernels.F32, Rows: 1, Cols: 3, Data: data, Owner: f}, m)
	b, ok := f.Tensor("b")
	require.True(t, ok)
	assert.Equal(t, []uint64{64, 2}, b.Dims)
	assert.EqualValues(t, 4*34, b.Size)
	assert.Zero(t, b.Offset%32)
	assert.Equal(t, `"b" Q8_0 [64 2]`, b.String())
	_, ok = f.Tensor("c")
	assert.False(t, ok)
}

func TestVersion2AndOtherAlignmentsAreRead(t *testing.T) {
	f, err := gguf.Parse("mem", gguftest.File{
		Version: 2, Alignment: 4096,
		KVs:     []gguftest.KV{{Key: "general.alignment", Value: uint32(4096)}},
		Tensors: []gguftest.Tensor{{Name: "a", Dims: []uint64{1}}, {Name: "b", Dims: []uint64{1}}},
	}.Build())
	require.NoError(t, err)
	assert.EqualValues(t, 2, f.Version())
	assert.EqualValues(t, 4096, f.Tensors()[0].Offset)
	assert.EqualValues(t, 8192, f.Tensors()[1].Offset)
}

func TestCloseEndsTheReadingOfTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, gguftest.Llama{}.Build(), 0o600))
	f, err := gguf.Open(path)
	require.NoError(t, err)
	name, _, err := f.String("general.architecture")
	require.NoError(t, err)
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	assert.Equal(t, "llama", name)
	assert.Equal(t, "<unk>", tokens[0])
	again, _, err := f.String("general.architecture")
	require.NoError(t, err, "the metadata stays")
	assert.Equal(t, name, again)
	_, err = f.Tensors()[0].Read()
	require.ErrorIs(t, err, gguf.ErrClosed)
	assert.ErrorContains(t, err, path+": model closed")
	require.ErrorIs(t, f.Use(func() error { t.Error("used after Close"); return nil }), gguf.ErrClosed)
	m, ok := f.Tensors()[0].Matrix(320, 64)
	require.True(t, ok)
	assert.Empty(t, m.Data)
}

func TestOpenSaysWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.gguf")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	bad := filepath.Join(dir, "bad.gguf")
	require.NoError(t, os.WriteFile(bad, []byte("GGML and more"), 0o600))
	for path, want := range map[string]string{
		dir:                           ": is a folder, not a GGUF file",
		filepath.Join(dir, "no.gguf"): ": ", // the rest is the system's own words
		empty:                         ": is empty",
		bad:                           `: not a GGUF file: it starts with "GGML", not "GGUF"`,
	} {
		_, err := gguf.Open(path)
		require.Error(t, err)
		assert.Truef(t, strings.HasPrefix(err.Error(), path+want), "%s", err)
	}
	_, err := gguf.Open(filepath.Join(dir, "no.gguf"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestTypesOfKernels(t *testing.T) {
	for typ, want := range map[gguf.Type]kernels.Type{
		gguf.F32: kernels.F32, gguf.F16: kernels.F16, gguf.BF16: kernels.BF16,
		gguf.Q8_0: kernels.Q8_0, gguf.Q4_0: kernels.Q4_0,
		gguf.Q4_K: kernels.Q4_K, gguf.Q6_K: kernels.Q6_K,
	} {
		k, ok := typ.Kernel()
		require.True(t, ok)
		assert.Equal(t, want, k)
		assert.Equal(t, typ.String(), k.String())
		elems, bytes := typ.Block()
		kElems, kBytes := k.Block()
		assert.EqualValues(t, elems, kElems, typ)
		assert.EqualValues(t, bytes, kBytes, typ)
	}
	_, ok := gguf.Q8_K.Kernel()
	assert.False(t, ok)
	assert.Equal(t, "type 99", gguf.Type(99).String())
}

// TestSharedModels reads real files of many tensor types. That tensors follow
// one another without gaps in all of them checks the sizes of the types.
func TestSharedModels(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/models/*.gguf")
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("the shared models are not beside this repository")
	}
	for _, path := range paths {
		f, err := gguf.Open(path)
		require.NoError(t, err)
		end := f.Tensors()[0].Offset
		for _, x := range f.Tensors() {
			assert.Equalf(t, end, x.Offset, "%s: %v", path, x)
			end = (x.Offset + x.Size + 31) / 32 * 32
		}
		assert.LessOrEqual(t, uint64(f.Size()), end, path)
		assert.Less(t, end, uint64(f.Size())+32, path)
		require.NoError(t, f.Close())
	}
}
