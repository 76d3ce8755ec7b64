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
	"github.com/leat-dev/leat/cmd/leat/internal/journal"
)

// journalEnding is that of the journal beside an output.
const journalEnding = ".resume"

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
// stays until begin. The wait for the reader of a named pipe ends with ctx.
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
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		o.made = err == nil
	}
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	o.w, o.file = f, f
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("output: %w", err), o.Close())
	}
	if o.regular = info.Mode().IsRegular(); !o.regular {
		o.guard = files.NewWriter(ctx, f)
		o.w = o.guard
	}
	return o, nil
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

// past is what an earlier run of the same batch has left.
type past struct {
	file    *os.File      // the output, from its start
	lines   *bufio.Reader // of it
	written int           // results in it that haven't been met yet
	journal *journal.State
	path    string
	unknown bool // the journal is missing, and so is the seed
}

// errOtherInput is an input that isn't the one of the results that are there.
func (p *past) otherInput(number int) error {
	return fmt.Errorf("-o %s holds results of another input: they differ at line %d or before. Resume with the input that it was begun with, or begin anew with --overwrite", p.path, number)
}

// task returns the task of a line that is done already, or nil.
func (p *past) task(l inputLine, id []byte) (*task, error) {
	if p == nil {
		return nil, nil
	}
	t := &task{number: l.number, kept: true}
	var known journal.Result
	if p.journal != nil {
		if digest, ok := p.journal.Digests[l.number]; ok && digest != l.digest {
			return nil, p.otherInput(l.number)
		}
		known = p.journal.Results[l.number]
	}
	switch {
	case p.written > 0:
		line, err := readLong(p.lines)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		p.written--
		t.line, t.written = line, true
	case known.Line != nil:
		t.line = known.Line
	case p.unknown:
		return nil, fmt.Errorf("%s%s, which knew the seed, is missing: give the --seed that the first run told", p.path, journalEnding)
	default:
		return nil, nil
	}
	got, failed, ok := resultOf(t.line)
	if id == nil {
		id = []byte("null")
	}
	if !ok || !bytes.Equal(got, id) {
		return nil, p.otherInput(l.number)
	}
	t.failed = failed
	if t.written {
		t.line = nil
	}
	return t, nil
}

// ended says what is wrong if the input has fewer lines than there are results.
func (p *past) ended(number int) error {
	if p == nil || p.written == 0 {
		return nil
	}
	return fmt.Errorf("-o %s holds %d results more than the input has lines, which are %d: resume with the input that it was begun with, or begin anew with --overwrite",
		p.path, p.written, number)
}

// Close closes what the results are read from.
func (p *past) Close() error {
	if p == nil || p.file == nil {
		return nil
	}
	return p.file.Close()
}
