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

	"github.com/leat-dev/leat/device"
)

// longestLine is how long a line of the input may be, in bytes.
const longestLine = 16 << 20

// inputLine is a line of the input that isn't empty.
type inputLine struct {
	number int    // from 1
	text   []byte // the receiver's to keep
	end    int64  // bytes of the input up to the line's end
	err    error  // the line can't be taken
	broken error  // there is no line: the input has ended (io.EOF), or can't be read further
}

// scan sends the lines of in, and after the last one why there are no more, or
// stops when ctx ends. Nothing can interrupt a read from a terminal or a pipe:
// when ctx ends first, the goroutine that reads is left to end with its reader.
func scan(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		s := scanner{r: bufio.NewReaderSize(in, 1<<16)}
		for {
			l, err := s.next()
			if err == io.EOF {
				l = inputLine{broken: err}
			} else if err != nil {
				l = inputLine{broken: fmt.Errorf("input after line %d: %w", s.number, err)}
			}
			select {
			case lines <- l:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// scanner cuts an input into lines.
type scanner struct {
	r      *bufio.Reader
	number int
	at     int64
}

const byteOrderMark = "\uFEFF"

// next returns the next line that isn't empty. Of a line that is too long
// nothing is kept.
func (s *scanner) next() (inputLine, error) {
	for {
		line := inputLine{number: s.number + 1}
		begun, long := s.at, false
		for more := true; more; {
			part, err := s.r.ReadSlice('\n')
			s.at += int64(len(part))
			more = errors.Is(err, bufio.ErrBufferFull)
			if err != nil && !more && (err != io.EOF || s.at == begun) {
				return line, err
			}
			if long = s.at-begun > longestLine; !long {
				line.text = append(line.text, part...)
			}
		}
		s.number, line.end = line.number, s.at
		if line.number == 1 {
			line.text = bytes.TrimPrefix(line.text, []byte(byteOrderMark)) // Windows programs write one
		}
		if line.text = bytes.Trim(line.text, " \t\r\n"); long {
			line.text, line.err = nil, fmt.Errorf("it is longer than %s", device.FormatSize(longestLine))
		} else if len(line.text) == 0 {
			continue
		}
		return line, nil
	}
}

// batchInput is where lines come from.
type batchInput struct {
	io.Reader
	file *os.File // nil: standard input
	size int64    // 0: unknown
}

func openBatchInput(path string, stdin io.Reader) (*batchInput, error) {
	in := &batchInput{Reader: stdin}
	if path != standardOutput {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, fmt.Errorf("input: %s is a folder, not a file to read", path)
		}
		in.Reader, in.file = f, f
	}
	if info := regular(in.Reader); info != nil {
		in.size = info.Size()
	}
	return in, nil
}

// Close closes the input, unless it is standard input.
func (in *batchInput) Close() error {
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

// batchOutput is where results go: into the file itself, so that they can be
// watched and outlive whatever happens. It holds whole lines when it is closed,
// a full disk included.
type batchOutput struct {
	w         io.Writer
	file      *os.File // nil: standard output
	made      bool     // it wasn't there before
	begun     bool
	at, whole int64 // bytes written, and of these up to the last whole line's end
}

// openBatchOutput finds out whether the output can be written. What stands
// there stays until begin. It refuses a file that is one of others, which are
// readers or paths, by what they are called.
func openBatchOutput(path string, stdout io.Writer, others map[string]any) (*batchOutput, error) {
	o := &batchOutput{w: stdout}
	if path != standardOutput {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
			o.made = err == nil
		}
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		o.w, o.file = f, f
	}
	if self := regular(o.w); self != nil {
		for name, other := range others {
			if info := regular(other); info != nil && os.SameFile(self, info) {
				_ = o.Close()
				return nil, usage("-o %s and %s are the same file: it would be overwritten", path, name)
			}
		}
	}
	return o, nil
}

// regular describes a regular file, given open or by its path. Of anything else
// it returns nil.
func regular(x any) fs.FileInfo {
	var info fs.FileInfo
	var err error
	switch x := x.(type) {
	case interface{ Stat() (fs.FileInfo, error) }:
		info, err = x.Stat()
	case string:
		info, err = os.Stat(x)
	default:
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

// begin takes away what stood there.
func (o *batchOutput) begin() error {
	o.begun = true
	if o.file == nil || regular(o.file) == nil {
		return nil
	}
	return o.file.Truncate(0)
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
	if o.at != o.whole && regular(o.file) != nil {
		_ = o.file.Truncate(o.whole) // the write that was cut short has told its error
	}
	err := o.file.Close()
	if o.made && !o.begun {
		err = errors.Join(err, os.Remove(o.file.Name()))
	}
	return err
}
