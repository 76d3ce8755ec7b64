package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io"

	"github.com/leat-dev/leat/device"
)

// longestLine is how long a line of the input may be, in bytes.
const longestLine = 16 << 20

// inputLine is a line of the input that isn't empty.
type inputLine struct {
	number int    // from 1
	text   []byte // the receiver's to keep
	end    int64  // bytes of the input up to the line's end
	digest uint64 // of all lines up to this one
	err    error  // the line can't be taken
	broken error  // there is no line: the input has ended (io.EOF), or can't be read further
}

// scan sends the lines of in, and after the last one why there are no more, or
// stops when ctx ends, as a read of in must then, too.
func scan(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		s := newScanner(in)
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
	digest hash.Hash64
}

func newScanner(in io.Reader) *scanner {
	return &scanner{r: bufio.NewReaderSize(in, 1<<16), digest: fnv.New64a()}
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
		fmt.Fprintf(s.digest, "%d:%s\n", line.number, line.text)
		line.digest = s.digest.Sum64()
		return line, nil
	}
}
