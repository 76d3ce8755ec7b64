package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Created is a file that appears whole or not at all: it is written beside its
// place, and put there by Commit. What isn't a regular file, such as a pipe or a
// device, and standard output, are written to as they are.
type Created struct {
	*bufio.Writer
	file  *os.File // nil: standard output
	guard *Writer  // of what is no regular file
	place string   // where a regular file belongs; "": it is there
}

// Create begins a file. A path that means standard output is stdout, which stays
// open. The wait for the reader of a named pipe ends with ctx, and so do writes to
// it. It must be ended by Discard.
func Create(ctx context.Context, path string, stdout io.Writer) (*Created, error) {
	if IsStandardOutput(path) {
		return &Created{Writer: bufio.NewWriter(stdout)}, nil
	}
	info, err := Await(ctx, func() (fs.FileInfo, error) { return os.Stat(path) }, nil)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s: is a folder, not a file to write", path)
	case err == nil && (!info.Mode().IsRegular() || descriptor(path)):
		how := os.O_WRONLY
		if descriptor(path) {
			how |= os.O_APPEND // after what the process has written to it
		}
		open := func() (*os.File, error) { return os.OpenFile(path, how, 0) }
		f, err := Await(ctx, open, closeFile)
		if err != nil {
			return nil, err
		}
		guard := NewWriter(ctx, f)
		return &Created{Writer: bufio.NewWriter(guard), file: f, guard: guard}, nil
	}
	place := followed(path) // a link stays a link
	f, err := beside(place)
	var cause *fs.PathError
	if errors.As(err, &cause) {
		return nil, fmt.Errorf("%s: can't be written: %w", path, cause.Err)
	}
	if err != nil {
		return nil, err
	}
	if info != nil {
		_ = f.Chmod(info.Mode().Perm()) // where the system has such
	}
	return &Created{Writer: bufio.NewWriter(f), file: f, place: place}, nil
}

// descriptor says that a path is one of the process's open files.
func descriptor(path string) bool {
	return strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/") || path == "/dev/stderr"
}

// beside opens a new file in the folder of place. Its name is drawn at random: a
// process of the same number may have been killed here before.
func beside(place string) (*os.File, error) {
	const longest = 200 // so that the whole fits what file systems allow
	name := filepath.Base(place)
	name = strings.ToValidUTF8(name[:min(len(name), longest)], "")
	for {
		path := filepath.Join(filepath.Dir(place), fmt.Sprintf("%s.%016x.part", name, rand.Uint64()))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Commit puts the file in its place.
func (c *Created) Commit() error {
	if err := c.Flush(); err != nil || c.file == nil {
		return err
	}
	if err := c.file.Close(); err != nil || c.place == "" {
		return err
	}
	if err := os.Rename(c.file.Name(), c.place); err != nil {
		return err
	}
	c.place = ""
	return nil
}

// Discard leaves nothing behind. After Commit it does nothing.
func (c *Created) Discard() {
	if c.guard != nil {
		c.guard.Release()
	}
	if c.file != nil {
		_ = c.file.Close()
	}
	if c.place != "" {
		_ = os.Remove(c.file.Name())
	}
}
