package gguf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

func onDisk(t *testing.T, data []byte) (path string, f *gguf.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return path, f
}

// What was parsed is a copy: whatever becomes of the file, it reads the same. The
// tensors aren't, and using them says what happened.
func TestAFileThatChangesWhileItIsOpen(t *testing.T) {
	whole := gguftest.Llama{}.Build()
	for name, c := range map[string]struct {
		change func(path string) error
		says   string
	}{
		"cut":       {func(path string) error { return os.Truncate(path, int64(len(whole)/2)) }, "cut short"},
		"emptied":   {func(path string) error { return os.Truncate(path, 0) }, "cut short"},
		"longer":    {func(path string) error { return os.Truncate(path, int64(2*len(whole))) }, "written to"},
		"rewritten": {func(path string) error { return rewrite(path, bytes.Repeat([]byte{0xff}, len(whole))) }, "written to"},
	} {
		t.Run(name, func(t *testing.T) {
			path, f := onDisk(t, whole)
			tensor, _ := f.Tensor("output.weight")
			want, err := tensor.Read()
			require.NoError(t, err)
			require.NoError(t, c.change(path))

			tokens, ok, err := f.Strings("tokenizer.ggml.tokens")
			require.NoError(t, err)
			require.True(t, ok && len(tokens) == 320)
			for _, key := range f.Keys() {
				look(t, f, key)
			}
			_, err = tensor.Read()
			require.ErrorContains(t, err, path+": the file was ")
			require.ErrorContains(t, err, c.says)
			err = f.Use(func() error { t.Error("a change is seen beforehand"); return nil })
			require.ErrorContains(t, err, c.says)
			require.Len(t, want, int(tensor.Size))
		})
	}
}

// rewrite changes a file in place, and its time even where the system's clock is
// too coarse for that.
func rewrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close(), os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute)))
}

func TestAChangeDuringUseIsAnErrorAfterIt(t *testing.T) {
	path, f := onDisk(t, everything())
	err := f.Use(func() error { return rewrite(path, everything()) })
	require.ErrorContains(t, err, path+": the file was written to while it was open")
}

func TestUseReturnsTheErrorAsItIs(t *testing.T) {
	_, f := onDisk(t, everything())
	require.Equal(t, assert.AnError, f.Use(func() error { return assert.AnError }))
}

// A path may get another file: the one that is open stays what it is.
func TestAPathMayGetAnotherFile(t *testing.T) {
	path, f := onDisk(t, everything())
	other := path + ".new"
	require.NoError(t, os.WriteFile(other, make([]byte, 10), 0o600))
	if err := os.Rename(other, path); err != nil {
		t.Skip("this system doesn't replace a file that is open: ", err)
	}
	a, _ := f.Tensor("a")
	data, err := a.Read()
	require.NoError(t, err)
	require.Equal(t, gguftest.F32(1, 2, 3), data)
}

// Close doesn't wait for a Use, and takes no memory away from it.
func TestCloseDuringUse(t *testing.T) {
	_, f := onDisk(t, gguftest.Llama{}.Build())
	tensor, _ := f.Tensor("output.weight")
	want, err := tensor.Read()
	require.NoError(t, err)
	m, ok := tensor.Matrix(320, 64)
	require.True(t, ok)
	require.NoError(t, m.Owner.Use(func() error {
		require.NoError(t, f.Close())
		require.True(t, bytes.Equal(want, m.Data))
		require.ErrorIs(t, f.Use(func() error { return nil }), gguf.ErrClosed)
		require.True(t, bytes.Equal(want, m.Data), "the other Use has taken nothing away")
		return nil
	}))
	require.ErrorIs(t, m.Owner.Use(func() error { return nil }), gguf.ErrClosed)
}

func TestUseFromManyGoroutines(t *testing.T) {
	_, f := onDisk(t, gguftest.Llama{}.Build())
	var all sync.WaitGroup
	for _, tensor := range f.Tensors() {
		all.Go(func() {
			for range 20 {
				if _, err := tensor.Read(); err != nil {
					assert.ErrorIs(t, err, gguf.ErrClosed)
					return
				}
			}
		})
	}
	all.Go(func() { assert.NoError(t, f.Close()) })
	all.Wait()
	_, err := f.Tensors()[0].Read()
	require.ErrorIs(t, err, gguf.ErrClosed)
}

// A file in memory can be closed too.
func TestCloseOfWhatWasParsed(t *testing.T) {
	f, err := gguf.Parse("mem", everything())
	require.NoError(t, err)
	a, _ := f.Tensor("a")
	m, _ := a.Matrix(1, 3)
	require.NoError(t, f.Close())
	_, err = a.Read()
	require.ErrorIs(t, err, gguf.ErrClosed)
	_, err = m.Pack(func() (kernels.Weight, error) { t.Error("packed after Close"); return nil, nil })
	require.ErrorIs(t, err, gguf.ErrClosed)
	require.ErrorContains(t, err, "weight a: mem: model closed")
}

// Text of a file is bounded before it is shown or kept.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("ä", 10<<20)
	f, err := gguf.Parse("mem", gguftest.Build([]gguftest.KV{
		{Key: "general.name", Value: long},
		{Key: "list", Value: []string{"short", long}},
		{Key: "template", Value: strings.Repeat("x", 1<<20)},
	}, nil))
	require.NoError(t, err)
	_, ok, err := f.String("general.name")
	require.False(t, ok)
	require.ErrorContains(t, err, `mem: key "general.name" is a string of 20971520 bytes`)
	whole, ok, err := f.String("template")
	require.NoError(t, err)
	require.True(t, ok && len(whole) == 1<<20)

	for _, key := range []string{"general.name", "list"} {
		v, _ := f.Value(key)
		assert.Less(t, len(v.String()), 300)
		j, err := json.Marshal(v.Any(8))
		require.NoError(t, err)
		assert.Less(t, len(j), 1<<20+100)
		assert.Contains(t, string(j), "ä…")
	}
	v, _ := f.Value("template")
	assert.Equal(t, whole, v.Any(-1), "at the limit it is whole")
}

func TestQuote(t *testing.T) {
	assert.Equal(t, `"a\n"`, gguf.Quote("a\n"))
	assert.Equal(t, `"`+strings.Repeat("x", 80)+`"`, gguf.Quote(strings.Repeat("x", 80)))
	assert.Equal(t, `"`+strings.Repeat("x", 80)+`"…`, gguf.Quote(strings.Repeat("x", 81)))
	assert.Equal(t, `"`+strings.Repeat("x", 79)+`"…`, gguf.Quote(strings.Repeat("x", 79)+"ä"))
	assert.Less(t, len(gguf.Quote(strings.Repeat("\xff\U000e0001", 1000))), 500)
}

func TestTrailingOnesOfAShapeDontCount(t *testing.T) {
	f, err := gguf.Parse("mem", gguftest.Build(nil, []gguftest.Tensor{
		{Name: "column", Dims: []uint64{8, 1}},
		{Name: "row", Dims: []uint64{1, 8, 1, 1}},
		{Name: "one", Dims: []uint64{1, 1}},
	}))
	require.NoError(t, err)
	has := func(name string, dims ...uint64) bool {
		x, ok := f.Tensor(name)
		require.True(t, ok)
		return x.HasShape(dims...)
	}
	assert.True(t, has("column", 8) && has("column", 8, 1) && has("column", 8, 1, 1))
	assert.False(t, has("column", 1, 8) || has("column", 4) || has("column", 8, 2))
	assert.True(t, has("row", 1, 8))
	assert.False(t, has("row", 8))
	assert.True(t, has("one", 1))
}

// One part of a split model says which the others are.
func TestPartsOfASplitModel(t *testing.T) {
	part := func(name string, kvs ...gguftest.KV) error {
		f, err := gguf.Parse(name, gguftest.Build(kvs, nil))
		require.NoError(t, err)
		return f.Whole()
	}
	no := func(n any) gguftest.KV { return gguftest.KV{Key: "split.no", Value: n} }
	count := func(n any) gguftest.KV { return gguftest.KV{Key: "split.count", Value: n} }
	require.NoError(t, part("m.gguf"))
	require.NoError(t, part("m.gguf", no(uint16(0)), count(uint16(1))))
	require.NoError(t, part("m.gguf", no(uint16(0)), count(uint16(0))))
	require.EqualError(t, part("d/m-00002-of-00003.gguf", no(uint16(1)), count(uint16(3))),
		"d/m-00002-of-00003.gguf: it is part 2 of a model in 3 files (m-00001-of-00003.gguf to m-00003-of-00003.gguf), which Leat doesn't read yet: join them with llama-gguf-split --merge, given m-00001-of-00003.gguf")
	require.EqualError(t, part("renamed.gguf", no(uint16(0)), count(uint16(3))),
		"renamed.gguf: it is part 1 of a model in 3 files, which Leat doesn't read yet: join them with llama-gguf-split --merge, given the first part")
	require.ErrorContains(t, part("m", no(uint16(3)), count(uint16(3))), "damaged")
	require.ErrorContains(t, part("m", no(uint16(3))), "damaged")
	require.ErrorContains(t, part("m", no("one")), "split.no")
	require.ErrorContains(t, part("m", no(uint8(0)), count("two")), "split.count")
}
