package gguf_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
)

// FuzzParse: whatever the bytes, Parse answers, and of a file that it accepts
// every value and tensor can be looked at.
func FuzzParse(f *testing.F) {
	f.Add(everything())
	f.Add(gguftest.Build(nil, nil))
	f.Add(gguftest.File{
		Version: 2, Alignment: 8,
		KVs:     []gguftest.KV{{Key: "general.alignment", Value: uint32(8)}},
		Tensors: []gguftest.Tensor{{Name: "a", Type: gguf.I8, Dims: []uint64{2, 2, 2, 2}}, {Name: "b", Type: gguf.Q2_K, Dims: []uint64{256}}},
	}.Build())
	paths, err := filepath.Glob("../../../shared/badgguf/*.gguf")
	require.NoError(f, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data[:min(len(data), 4096)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse("fuzz", data)
		if err != nil {
			require.Regexp(t, "^fuzz: ", err.Error())
			require.Less(t, len(err.Error()), 1000)
			return
		}
		for _, key := range file.Keys() {
			look(t, file, key)
		}
		if err := file.Whole(); err != nil {
			require.Less(t, len(err.Error()), 1000)
		}
		used := uint64(0)
		for _, x := range file.Tensors() {
			used += (x.Size + uint64(file.Alignment()) - 1) / uint64(file.Alignment()) * uint64(file.Alignment())
			require.True(t, x.HasShape(x.Dims...))
			require.NotEmpty(t, x.String())
			require.Zero(t, x.Offset%uint64(file.Alignment()))
			require.NotZero(t, x.Size)
			bytes, err := x.Read()
			require.NoError(t, err)
			require.Equal(t, data[x.Offset:x.Offset+x.Size], bytes)
			again, ok := file.Tensor(x.Name)
			require.True(t, ok)
			require.Equal(t, x, again)
		}
		if tensors := file.Tensors(); len(tensors) > 0 {
			start := slices.MinFunc(tensors, func(a, b gguf.Tensor) int { return cmp.Compare(a.Offset, b.Offset) }).Offset
			require.Less(t, uint64(len(data))-start, used+uint64(file.Alignment()), "every byte behind the header is a tensor's, or padding")
		}
	})
}

// look reads one value in every way there is.
func look(t *testing.T, f *gguf.File, key string) {
	v, ok := f.Value(key)
	require.True(t, ok)
	require.NotEmpty(t, v.String())
	require.Less(t, len(v.String()), 8*1000, "eight texts at most, each on a line of less than 1 KB")
	_, err := json.Marshal(v.Any(-1))
	require.NoError(t, err)
	n := 0
	for range v.All() {
		n++
	}
	require.Equal(t, v.Len(), n)

	right := 0
	count := func(ok bool, err error) {
		require.NotEqual(t, ok, err != nil)
		if ok {
			right++
		}
	}
	_, ok, err = f.Uint(key)
	count(ok, err)
	_, isInt, err := f.Int(key)
	require.NotEqual(t, isInt, err != nil)
	require.True(t, !ok || isInt || v.Kind() == gguf.Uint64, "what is an unsigned integer is an integer")
	_, ok, err = f.Float(key)
	count(ok, err)
	_, ok, err = f.Bool(key)
	count(ok, err)
	_, ok, err = f.String(key)
	count(ok, err)
	_, ok, err = f.Strings(key)
	count(ok, err)
	_, ok, err = f.Floats(key)
	count(ok, err)
	_, ok, err = f.Ints(key)
	count(ok, err)
	require.LessOrEqual(t, right, 1, "a value has one type")
}
