package gguf_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
)

func u64s(x ...uint64) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func u32s(x ...uint32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func kv(key string, value any) []byte {
	return gguftest.Build([]gguftest.KV{{Key: key, Value: value}}, nil)
}

func raw(kind gguf.Kind, b ...[]byte) []byte {
	return kv("k", gguftest.Raw{Kind: kind, Bytes: join(b...)})
}

func tensor(typ gguf.Type, dims ...uint64) []byte {
	return gguftest.Build(nil, []gguftest.Tensor{{Name: "t", Type: typ, Dims: dims}})
}

func TestMalformed(t *testing.T) {
	one := []uint64{1}
	kvs := func(list ...gguftest.KV) []byte { return gguftest.Build(list, nil) }
	tensors := func(list ...gguftest.Tensor) []byte { return gguftest.Build(nil, list) }
	twoKeys := gguftest.File{KVCount: gguftest.Count(2), KVs: []gguftest.KV{{Key: "first", Value: "long enough to hold"}}}

	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "is empty"},
		"too short":        {[]byte("GG"), "not a GGUF file: it has only 2 bytes"},
		"magic":            {gguftest.File{Magic: "G\nUF"}.Build(), `not a GGUF file: it starts with "G\nUF"`},
		"no version":       {[]byte("GGUF"), "the version: 4 bytes needed at byte 4"},
		"version 0":        {join([]byte("GGUF"), u32s(0), u64s(0, 0)), "version 0 is not known"},
		"version 1":        {gguftest.File{Version: 1}.Build(), "version 1 is too old"},
		"version 4":        {gguftest.File{Version: 4}.Build(), "version 4 is not known"},
		"big-endian":       {gguftest.File{Version: 3 << 24}.Build(), "big-endian"},
		"no counts":        {join([]byte("GGUF"), u32s(3)), "the number of tensors"},
		"one count":        {join([]byte("GGUF"), u32s(3), u64s(0)), "the number of keys"},
		"keys beyond":      {gguftest.File{KVCount: gguftest.Count(1 << 60)}.Build(), "the number of keys is 1152921504606846976, which the 0 bytes left"},
		"tensors beyond":   {gguftest.File{TensorCount: gguftest.Count(math.MaxUint64)}.Build(), "the number of tensors is 18446744073709551615"},
		"a key too few":    {twoKeys.Build(), "key 2 of 2: 8 bytes needed"},
		"empty key":        {kv("", uint8(1)), "key 1 of 1: it is empty"},
		"long key":         {kv(strings.Repeat("k", 65536), uint8(1)), "it has 65536 bytes, more than 65535"},
		"key beyond":       {join([]byte("GGUF"), u32s(3), u64s(0, 1, 1<<62, 0)), "4611686018427387904 bytes needed"},
		"key not UTF-8":    {kv("a\xff", uint8(1)), `"a\xff" is not valid UTF-8`},
		"duplicate key":    {kvs(gguftest.KV{Key: "a\n", Value: uint8(1)}, gguftest.KV{Key: "a\n", Value: uint8(2)}), `key "a\n" appears twice`},
		"no value":         {kv("long enough a key", gguftest.Raw{Kind: gguf.Uint64}), `key "long enough a key": its value: 8 bytes needed`},
		"value type":       {raw(13, u64s(0)), `key "k": value type 13 is not known`},
		"huge value type":  {raw(math.MaxUint32, u64s(0)), "value type 4294967295 is not known"},
		"bool 2":           {raw(gguf.Bool, []byte{2}), "a bool of 2"},
		"bools":            {raw(gguf.Array, u32s(uint32(gguf.Bool)), u64s(2), []byte{1, 255}), "a bool of 255"},
		"string beyond":    {raw(gguf.String, u64s(1<<63)), "a string: 9223372036854775808 bytes needed"},
		"no string length": {kv("long enough a key", gguftest.Raw{Kind: gguf.String}), "the length of a string"},
		"no array type":    {kv("long enough a key", gguftest.Raw{Kind: gguf.Array}), "the type of its array"},
		"no array length":  {raw(gguf.Array, u32s(4)), "the length of its array"},
		"nested array":     {raw(gguf.Array, u32s(uint32(gguf.Array)), u64s(1)), "array of arrays"},
		"array type":       {raw(gguf.Array, u32s(77), u64s(1)), "an array of value type 77"},
		"array beyond":     {raw(gguf.Array, u32s(uint32(gguf.Uint32)), u64s(3), u64s(0)), "the number of array elements is 3, which the 8 bytes left"},
		"array overflow":   {raw(gguf.Array, u32s(uint32(gguf.Uint64)), u64s(1<<61+1), u64s(0)), "the number of array elements is"},
		"strings overflow": {raw(gguf.Array, u32s(uint32(gguf.String)), u64s(math.MaxUint64), u64s(0)), "the number of array elements is"},
		"string in array":  {raw(gguf.Array, u32s(uint32(gguf.String)), u64s(2), u64s(0, 5)), "element 1 of 2: a string: 5 bytes needed"},

		"alignment type": {kv("general.alignment", uint64(32)), `key "general.alignment" is of type uint64, not uint32`},
		"alignment 0":    {kv("general.alignment", uint32(0)), "0 is not a power of two"},
		"alignment 24":   {kv("general.alignment", uint32(24)), "24 is not a power of two"},

		"empty tensor name": {tensors(gguftest.Tensor{Dims: one}), "tensor 1 of 1: its name: it is empty"},
		"tensor twice":      {tensors(gguftest.Tensor{Name: "t", Dims: one}, gguftest.Tensor{Name: "t", Dims: one}), `tensor "t" appears twice`},
		"0 dimensions":      {tensor(gguf.F32), "0 dimensions, where 1 to 4"},
		"5 dimensions":      {tensor(gguf.F32, 1, 1, 1, 1, 1), "5 dimensions"},
		"dimension 0":       {tensor(gguf.F32, 4, 0), "a dimension of [4 0] is 0"},
		"elements overflow": {tensor(gguf.F32, 1<<32, 1<<32), "more elements than 64 bits"},
		"bytes overflow":    {tensor(gguf.F64, 1<<62), "more bytes than 64 bits"},
		"half a block":      {tensor(gguf.Q4_0, 48), "a row of 48 elements is not a whole number of Q4_0 blocks of 32"},
		"tensor type":       {tensor(4242, 1), "tensor type 4242 is not known"},
		"dropped type":      {tensor(31, 32), "tensor type Q4_0_4_4 was removed"},
		"offset":            {tensors(gguftest.Tensor{Name: "t", Dims: one, Offset: 4, Placed: true}), "its offset 4 is not a multiple of the alignment, 32"},
		"data beyond":       {tensors(gguftest.Tensor{Name: "t", Dims: one, Offset: 32, Placed: true}), `tensor "t": its data, 4 bytes at 32`},
		"offset overflow":   {tensors(gguftest.Tensor{Name: "t", Dims: one, Offset: math.MaxUint64 - 31, Placed: true}), "extends beyond the file"},
		"huge data":         {tensor(gguf.F32, 1<<40), "extends beyond the file"},
		"overlap": {tensors(
			gguftest.Tensor{Name: "t", Dims: []uint64{16}},
			gguftest.Tensor{Name: "u", Dims: one, Offset: 32, Placed: true},
		), `tensors "t" and "u" overlap`},
		"same place": {tensors(
			gguftest.Tensor{Name: "t", Dims: one},
			gguftest.Tensor{Name: "u", Dims: one, Offset: 0, Placed: true},
		), "overlap"},
		"a type of half the bytes": {tensors(
			gguftest.Tensor{Name: "t", Type: gguf.Q8_0, Dims: []uint64{64}, Data: make([]byte, 128)},
			gguftest.Tensor{Name: "u", Dims: one},
		), `tensor "t" has 68 bytes as Q8_0 [64], with a gap of 60 bytes before "u"`},
		"a hole at the start": {tensors(gguftest.Tensor{Name: "t", Dims: one, Offset: 32, Placed: true, Data: make([]byte, 36)}),
			`tensor "t" is the first in the tensor data, but begins 32 bytes after its start`},
		"a hole at the end": {tensors(gguftest.Tensor{Name: "t", Dims: one, Data: make([]byte, 36)}),
			`tensor "t", the last, has 4 bytes as F32 [1], but the file has 32 more`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := gguf.Parse("bad.gguf", c.data)
			require.Error(t, err)
			assert.ErrorContains(t, err, c.want)
			assert.True(t, strings.HasPrefix(err.Error(), "bad.gguf: "), err)
			assert.NotContains(t, err.Error(), "\n")
			assert.Less(t, len(err.Error()), 400)
		})
	}
}

func TestAFileCutAnywhereIsRefused(t *testing.T) {
	whole := everything()
	for n := range whole {
		_, err := gguf.Parse("cut.gguf", whole[:n])
		require.Errorf(t, err, "the first %d of %d bytes", n, len(whole))
	}
	_, err := gguf.Parse("whole.gguf", whole)
	require.NoError(t, err)
}

// Files that are well formed, and that no loader can make a model of.
var parsedButRefusedLater = map[string]bool{"unknown-architecture.gguf": true}

func TestSharedBadFiles(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/badgguf/*.gguf")
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("the shared malformed files are not beside this repository")
	}
	for _, path := range paths {
		f, err := gguf.Open(path)
		if parsedButRefusedLater[filepath.Base(path)] {
			require.NoError(t, err)
			require.NoError(t, f.Close())
			continue
		}
		require.Error(t, err, path)
		assert.True(t, strings.HasPrefix(err.Error(), path+": "), err)
		t.Log(err)
	}
}

// hugeHeaders are headers that claim far more than a model has, in files that
// are large enough for it.
func hugeHeaders() map[string][]byte {
	const large = 1 << 30
	entries := func(n uint64, entry func(i int) []byte, tensors bool) []byte {
		b := join([]byte("GGUF"), u32s(3), u64s(0, n))
		if tensors {
			b = join([]byte("GGUF"), u32s(3), u64s(n, 0))
		}
		for i := range int(n) {
			b = append(b, entry(i)...)
		}
		return b
	}
	key := func(i int) []byte {
		name := strconv.Itoa(i) + strings.Repeat("k", 5000)
		return join(u64s(uint64(len(name))), []byte(name), u32s(0), []byte{1})
	}
	return map[string][]byte{
		"strings of zeros": join([]byte("GGUF"), u32s(3), u64s(0, 1, 1), []byte("k"), u32s(9, 8), u64s(large/8)),
		"an array":         join([]byte("GGUF"), u32s(3), u64s(0, 1, 1), []byte("k"), u32s(9, 7), u64s(large-100)),
		"one string":       join([]byte("GGUF"), u32s(3), u64s(0, 1, 1), []byte("k"), u32s(8), u64s(large-100)),
		"tensors":          join([]byte("GGUF"), u32s(3), u64s(1<<20, 0)),
		"keys":             join([]byte("GGUF"), u32s(3), u64s(0, 1<<20)),
		"long keys":        entries(2000, key, false),
		"many keys": entries(1<<16, func(i int) []byte {
			return join(u64s(8), []byte(strconv.Itoa(10000000+i)), u32s(0), []byte{1})
		}, false),
		"many tensors": entries(1<<17, func(i int) []byte {
			return join(u64s(8), []byte(strconv.Itoa(10000000+i)), u32s(1), u64s(1), u32s(0), u64s(uint64(i)*32))
		}, true),
	}
}

// A file of a gigabyte takes no room on a disk when it is all zeros. Its
// header must not take room in memory either.
func TestAHugeHeaderCostsLittle(t *testing.T) {
	for name, head := range hugeHeaders() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "huge.gguf")
			require.NoError(t, os.WriteFile(path, head, 0o600))
			require.NoError(t, os.Truncate(path, 1<<30))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := gguf.Open(path)
			runtime.ReadMemStats(&after)
			if err == nil {
				require.NoError(t, f.Close())
			}
			// Two are within every limit; one of them has no tensors, so that
			// nothing is wrong with what lies behind its header.
			if name == "many tensors" {
				require.ErrorContains(t, err, "the last, has 4 bytes")
			} else {
				assert.Equal(t, name == "many keys", err == nil, err)
			}
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
		})
	}
}
