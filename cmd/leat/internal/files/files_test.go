package files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
	return path
}

func link(t *testing.T, old, path string, by func(old, path string) error) string {
	t.Helper()
	if err := by(old, path); err != nil {
		t.Skipf("no links here: %v", err)
	}
	return path
}

func TestClash(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	model, other := write(t, at("model"), "a"), write(t, at("other"), "b")
	soft, hard := link(t, model, at("soft"), os.Symlink), link(t, model, at("hard"), os.Link)
	dangling := link(t, "new", at("dangling"), os.Symlink)
	require.NoError(t, os.Mkdir(at("folder"), 0o755))
	around := link(t, folder, at("folder/around"), os.Symlink)
	stream, err := os.Open(model)
	require.NoError(t, err)
	defer stream.Close()

	in := func(path string) files.File { return files.File{Flag: "-i " + path, Path: path} }
	out := func(path string) files.File { return files.File{Flag: "-o " + path, Path: path, Output: true} }
	for name, pair := range map[string][2]files.File{
		"the same path":                {in(model), out(model)},
		"a longer way":                 {in(model), out(folder + "/folder/../model")},
		"a symbolic link":              {in(model), out(soft)},
		"a link as input":              {in(soft), out(model)},
		"a hard link":                  {in(model), out(hard)},
		"a folder's link":              {in(model), out(filepath.Join(around, "model"))},
		"two outputs":                  {out(model), out(soft)},
		"two new outputs":              {out(at("new")), out(at("folder/../new"))},
		"a link to a new one":          {out(at("new")), out(dangling)},
		"upper case":                   {out(at("new")), out(at("NEW"))},
		"a redirected standard input":  {{Flag: "standard input", Path: "-", Stream: stream}, out(hard)},
		"a redirected standard output": {{Flag: "standard output", Path: "-", Stream: stream, Output: true}, in(model)},
	} {
		assert.ErrorContains(t, files.Clash(pair[:]), pair[0].Flag+" and "+pair[1].Flag+" are the same file", name)
	}
	for name, all := range map[string][]files.File{
		"several":         {in(model), in(model), in(soft), out(other), out(at("new")), out(at("newer"))},
		"what isn't here": {in(at("no")), out(at("new")), out(at("no/new"))},
		"a device":        {in(os.DevNull), out(os.DevNull), out(os.DevNull)},
		"streams":         {{Flag: "-", Path: "-", Stream: strings.NewReader("")}, {Flag: "-", Path: "-", Stream: io.Discard, Output: true}},
	} {
		assert.NoError(t, files.Clash(all), name)
	}
	twice := []files.File{{Flag: "-i -", Path: "-", Stream: stream}, {Flag: "-p -", Path: "-", Stream: stream}}
	assert.ErrorContains(t, files.Clash(twice), "standard input can be read once")
}

func TestCreate(t *testing.T) {
	folder := t.TempDir()
	path := write(t, filepath.Join(folder, "out"), "old")
	soft := link(t, path, filepath.Join(folder, "soft"), os.Symlink)
	for name, to := range map[string]string{"a file": path, "a link": soft, "a new one": filepath.Join(folder, "new")} {
		c, err := files.Create(t.Context(), to, nil)
		require.NoError(t, err, name)
		_, err = c.WriteString(name)
		require.NoError(t, err)
		require.NoError(t, c.Commit())
		c.Discard()
		got, err := os.ReadFile(to)
		require.NoError(t, err)
		assert.Equal(t, name, string(got))
	}
	info, err := os.Lstat(soft)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink, "a link stays one")

	long := filepath.Join(folder, strings.Repeat("é", 127))
	c, err := files.Create(t.Context(), long, nil)
	require.NoError(t, err, "the name of the part isn't longer than a file system allows")
	c.Discard()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, entries, 3, "nothing half is left")

	_, err = files.Create(t.Context(), folder, nil)
	assert.ErrorContains(t, err, "is a folder")
	_, err = files.Create(t.Context(), filepath.Join(folder, "no", "out"), nil)
	assert.ErrorContains(t, err, "can't be written")

	var stdout bytes.Buffer
	for _, name := range []string{"-", "/dev/stdout", "/dev/fd/1"} {
		c, err := files.Create(t.Context(), name, &stdout)
		require.NoError(t, err)
		_, _ = c.WriteString("x")
		require.NoError(t, c.Commit())
		c.Discard()
	}
	assert.Equal(t, "xxx", stdout.String())
}

// What a process that was killed left is in nobody's way.
func TestCreateBesideLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for range 3 {
		c, err := files.Create(t.Context(), path, nil)
		require.NoError(t, err)
		defer c.Discard()
	}
	c, err := files.Create(t.Context(), path, nil)
	require.NoError(t, err)
	defer c.Discard()
	require.NoError(t, c.Commit())
	assert.FileExists(t, path)
}

// A reader that stands still holds a write up until the grace after ctx is over; one
// that comes back in time gets everything.
func TestWriterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		g := files.NewWriter(ctx, w)
		defer g.Release()
		time.AfterFunc(time.Hour, stop)
		began := time.Now()
		_, err := g.Write([]byte("nobody reads this"))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Hour+time.Second/2, time.Since(began))
		_, err = g.Write([]byte("nor this"))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Hour+time.Second/2, time.Since(began), "no further wait")
		assert.ErrorIs(t, g.Err(), context.Canceled)
		require.NoError(t, r.Close()) // ends the write
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		g := files.NewWriter(ctx, w)
		defer g.Release()
		stop()
		go func() {
			time.Sleep(100 * time.Millisecond)
			_, _ = io.ReadAll(r)
		}()
		n, err := g.Write([]byte("what is left"))
		assert.Equal(t, 12, n)
		assert.NoError(t, err)
		require.NoError(t, w.Close())
	})
}

func TestReaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		from, to := io.Pipe()
		r := files.Input(ctx, from)
		go func() { _, _ = to.Write([]byte("once")) }()
		p := make([]byte, 10)
		n, err := r.Read(p)
		require.NoError(t, err)
		assert.Equal(t, "once", string(p[:n]))
		time.AfterFunc(time.Hour, stop)
		_, err = r.Read(p)
		assert.ErrorIs(t, err, context.Canceled)
		require.NoError(t, to.Close())
	})
}

func TestAwaitDropsWhatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		dropped := 0
		_, err := files.Await(ctx, func() (int, error) { time.Sleep(time.Hour); return 7, nil }, func(n int) { dropped = n })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 7, dropped)
		_, err = files.Await(t.Context(), func() (int, error) { return 0, errors.New("failed") }, nil)
		assert.EqualError(t, err, "failed")
	})
}
