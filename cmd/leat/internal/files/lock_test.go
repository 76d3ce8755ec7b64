//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows

package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	a, b := open(), open()
	require.NoError(t, Lock(a))
	assert.ErrorIs(t, Lock(b), ErrLocked)
	_, err := a.WriteString("written under the lock")
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "written under the lock", string(data), "it can be read meanwhile")
	require.NoError(t, a.Close())
	assert.NoError(t, Lock(b))
}
