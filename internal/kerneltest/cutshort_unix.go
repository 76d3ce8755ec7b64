//go:build unix

package kerneltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leat-dev/leat/kernels"
)

// A file that shrinks while it is mapped faults when it is read.
func packOfAFileCutShort(t *testing.T, b Backend) {
	r := b.Rig(t)
	const rows, cols = 64, 1024
	name := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.WriteFile(name, make([]byte, 4*rows*cols), 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	data, err := unix.Mmap(int(f.Fd()), 0, 4*rows*cols, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(data)
	require.NoError(t, f.Truncate(4*rows*cols/2))

	m := kernels.Matrix{Name: "output.weight", Type: kernels.F32, Rows: rows, Cols: cols, Data: data}
	before := r.Q.Device().Allocated()
	_, err = r.Q.Pack(t.Context(), m)
	require.ErrorContains(t, err, "output.weight")
	require.ErrorContains(t, err, "cut short")
	require.Equal(t, before, r.Q.Device().Allocated())

	m.Rows, m.Data = rows/2, data[:len(data)/2]
	w, err := r.Q.Pack(t.Context(), m)
	require.NoError(t, err, "the queue is as good as before")
	require.NoError(t, w.Free())
}
