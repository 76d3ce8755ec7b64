package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	someFiles = []file{{"LICENSE", 0o644, []byte("free")}, {"leat", 0o755, bytes.Repeat([]byte("x"), 1<<16)}}
	someTime  = time.Date(2026, 10, 3, 12, 30, 45, 678, time.FixedZone("east", 3600))
)

func TestTarGzip(t *testing.T) {
	data, err := tarGzip("leat-1", someFiles, someTime)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	r := tar.NewReader(z)
	for _, want := range someFiles {
		h, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, "leat-1/"+want.name, h.Name)
		assert.Equal(t, want.mode, h.FileInfo().Mode())
		assert.True(t, h.ModTime.Equal(someTime.Truncate(time.Second)), h.ModTime)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, want.data, got)
	}
	_, err = r.Next()
	assert.Equal(t, io.EOF, err)
}

func TestZipped(t *testing.T) {
	data, err := zipped("leat-1", someFiles, someTime)
	require.NoError(t, err)
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, z.File, len(someFiles))
	for i, want := range someFiles {
		assert.Equal(t, "leat-1/"+want.name, z.File[i].Name)
		assert.Equal(t, want.mode, z.File[i].Mode())
		r, err := z.File[i].Open()
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, want.data, got)
	}
}

func TestArchivesAreReproducible(t *testing.T) {
	for _, pack := range []func(string, []file, time.Time) ([]byte, error){tarGzip, zipped} {
		a, err := pack("leat-1", someFiles, someTime)
		require.NoError(t, err)
		b, err := pack("leat-1", someFiles, someTime.UTC())
		require.NoError(t, err)
		assert.Equal(t, a, b, "whatever the time zone")
	}
}

func TestSums(t *testing.T) {
	sums := map[string][sha256.Size]byte{"b.zip": sha256.Sum256([]byte("b")), "a.tar.gz": sha256.Sum256(nil)}
	assert.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a.tar.gz\n"+
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b.zip\n", sumsOf(sums))
}

func TestArchivesHaveTheDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leat")
	require.NoError(t, os.WriteFile(path, []byte("program"), 0o777))
	files, err := built{path: path, name: "leat"}.files("../..")
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.name)
		assert.NotEmpty(t, f.data)
	}
	assert.Equal(t, []string{"CHANGELOG.md", "LICENSE", "LICENSE-demo-model", "README.md", "leat"}, names)
}
