package gguf_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model/gguf"
)

// resident returns how many bytes of a file's mapping the process holds.
func resident(t *testing.T, path string) int {
	maps, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer maps.Close()
	total, ours := 0, false
	for s := bufio.NewScanner(maps); s.Scan(); {
		line := s.Text()
		if first, _, _ := strings.Cut(line, " "); !strings.HasSuffix(first, ":") {
			ours = strings.HasSuffix(line, path)
		}
		var kilobytes int
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kilobytes); n == 1 && ours {
			total += kilobytes << 10
		}
	}
	return total
}

func TestForgottenDataIsGivenBackAndCanBeReadAgain(t *testing.T) {
	const cols, rows = 1 << 10, 1 << 10 // 4 MB each
	x := make([]float32, cols*rows)
	for i := range x {
		x[i] = float32(i)
	}
	path, f := onDisk(t, gguftest.Build(nil, []gguftest.Tensor{
		{Name: "a", Type: gguf.F32, Dims: []uint64{cols, rows}, Data: gguftest.F32(x...)},
		{Name: "b", Type: gguf.F32, Dims: []uint64{cols, rows}, Data: gguftest.F32(x...)},
	}))
	read := func(name string) (sum uint64) {
		tensor, ok := f.Tensor(name)
		require.True(t, ok)
		m, ok := tensor.Matrix(rows, cols)
		require.True(t, ok)
		require.NoError(t, f.Use(func() error {
			for _, b := range m.Data {
				sum += uint64(b)
			}
			return nil
		}))
		return sum
	}
	forget := func(name string) {
		tensor, _ := f.Tensor(name)
		m, _ := tensor.Matrix(rows, cols)
		require.NoError(t, f.Use(func() error { f.Forget(m.Data); return nil }))
	}
	a, b := read("a"), read("b")
	require.Greater(t, resident(t, path), 8_000_000)
	forget("a")
	assert.Less(t, resident(t, path), 4_400_000)
	forget("b")
	assert.Less(t, resident(t, path), 200_000)
	assert.Equal(t, a, read("a"))
	assert.Equal(t, b, read("b"))

	held := resident(t, path)
	require.NoError(t, f.Use(func() error { f.Forget(make([]byte, 100)); f.Forget(nil); return nil }))
	assert.Equal(t, held, resident(t, path), "memory of others is left alone")
}
