package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
)

// batchOutput is where results go: into the file itself, so that they can be
// watched and outlive whatever happens. It holds whole lines when it is closed,
// a full disk included.
type batchOutput struct {
	w         io.Writer
	path      string
	file      *os.File      // nil: standard output
	regular   bool          // the file is one, and can be resumed
	guard     *files.Writer // of a file that isn't regular
	made      bool          // it wasn't there before
	begun     bool
	at, whole int64 // bytes of the file, and of these up to the last whole line's end
}

// openBatchOutput finds out whether the output can be written. What stands there
// stays until begin. The wait for the reader of a named pipe ends with ctx. A regular
// file is locked until Close; if another process has locked it, the error wraps
// files.ErrLocked.
func openBatchOutput(ctx context.Context, path string, stdout io.Writer) (*batchOutput, error) {
	o := &batchOutput{w: stdout, path: path}
	if files.IsStandardOutput(path) {
		return o, nil
	}
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) }
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		open = func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) }
	}
	f, err := files.Await(ctx, open, func(f *os.File) { _ = f.Close() })
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		o.made = err == nil
	}
	if errors.Is(err, fs.ErrExist) { // another process has just made it
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	o.w, o.file = f, f
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		o.regular = true
		err = o.lock(info)
	} else if err == nil {
		o.guard = files.NewWriter(ctx, f)
		o.w = o.guard
	}
	if err != nil {
		o.made = false // if it was made, it is another process's now
		return nil, errors.Join(fmt.Errorf("output: %w", err), o.Close())
	}
	return o, nil
}

// lock locks the file, which info is of.
func (o *batchOutput) lock(info fs.FileInfo) error {
	err := files.Lock(o.file)
	if errors.Is(err, files.ErrLocked) {
		return fmt.Errorf("-o %s is being written by another process: wait until it has ended, or name another file", o.path)
	}
	if err != nil {
		return err
	}
	// Between opening and locking, a process that made the file and wrote nothing may
	// have removed it.
	if there, err := os.Stat(o.path); err != nil || !os.SameFile(there, info) {
		return fmt.Errorf("-o %s was removed by another process: try again", o.path)
	}
	return nil
}

// found returns the number of results that stand in the file, and leaves o.whole at
// the end of the last. What a killed process left of one more isn't counted. A file
// that holds something else is an error.
func (o *batchOutput) found() (int, error) {
	if o.regular {
		if _, err := o.file.Seek(0, io.SeekStart); err != nil {
			return 0, fmt.Errorf("output: %w", err)
		}
	}
	r := bufio.NewReaderSize(o.file, 1<<16)
	for n := 0; ; n++ {
		line, err := readLong(r)
		o.at += int64(len(line))
		switch {
		case err == io.EOF && startsAsResult(line):
			return n, nil
		case err != nil && err != io.EOF:
			return 0, fmt.Errorf("output: %w", err)
		case err == io.EOF || !startsAsResult(line) || !bytes.HasSuffix(line, []byte("}\n")):
			return 0, fmt.Errorf("-o %s: its line %d is no result of leat batch: name another file, or replace this one with --overwrite", o.path, n+1)
		}
		o.whole = o.at
	}
}

// readLong returns a line with its end, of any length.
func readLong(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		begun := bytes.Clone(line)
		line, err = r.ReadBytes('\n')
		line = append(begun, line...)
	}
	return line, err
}

// startsAsResult says that a text is, or may become, what the line of a result
// begins with. Zeros are what some file systems leave where a machine loses power.
func startsAsResult(line []byte) bool {
	const start = `{"id":`
	n := min(len(line), len(start))
	return string(line[:n]) == start[:n] || len(bytes.Trim(line, "\x00")) == 0
}

// begin makes the file ready for results that follow the whole lines in it, or, if it
// is to be begun anew, for the first.
func (o *batchOutput) begin(anew bool) error {
	o.begun = true
	if !o.regular {
		return nil
	}
	if anew {
		o.whole = 0
	}
	o.at = o.whole
	if err := o.file.Truncate(o.whole); err != nil {
		return err
	}
	_, err := o.file.Seek(o.whole, io.SeekStart)
	return err
}

// Write writes whole lines.
func (o *batchOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		o.whole = o.at + int64(i) + 1
	}
	o.at += int64(n)
	return n, err
}

// Close closes the file. Of one that wasn't begun nothing is left, unless it
// was there before.
func (o *batchOutput) Close() error {
	if o.file == nil {
		return nil
	}
	if o.guard != nil {
		o.guard.Release()
	}
	if o.begun && o.at != o.whole && o.regular {
		_ = o.file.Truncate(o.whole) // the write that was cut short has told its error
	}
	err := o.file.Close()
	if o.made && !o.begun {
		err = errors.Join(err, os.Remove(o.path))
	}
	return err
}
