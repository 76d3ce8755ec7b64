// Package journal keeps what a batch of lines has done, in a file beside its output,
// so that a batch that was ended, even by SIGKILL, can be resumed.
//
// The output of a batch is in the order of its input. A line that is finished before
// the lines in front of it can't be there yet: until it is, its result is in the
// journal. The journal also holds what the results depend on besides the input, such
// as the seed, and digests of the input, by which a later run finds out whether it
// has the same one.
//
// The package knows nothing of models, nor of what a result looks like, except that
// it is one line of JSON.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Header is what the results of a batch depend on besides its input.
type Header struct {
	Version  int               `json:"version"`
	Seed     uint64            `json:"seed"`
	Settings map[string]string `json:"settings"` // by the flags that set them
}

// Version is that of the journals that this package writes and reads.
const Version = 1

// State is what a journal holds.
type State struct {
	Header  Header
	Results map[int]Result // by the numbers of their lines in the input
	Digests map[int]uint64 // of the input's lines up to some of their numbers
}

// Result is a finished line that isn't known to be in the output.
type Result struct {
	Digest uint64 // of the input's lines up to its own
	Line   []byte // of the output, with its end
}

// entry is a line of the file. The first is a Header.
type entry struct {
	Number int             `json:"line"`
	Digest uint64          `json:"input"`
	Result json.RawMessage `json:"result,omitempty"` // nil: all lines up to Number are in the output
}

// Load reads a journal. Where there is none, the State is nil. What follows the first
// line that isn't whole, as a process that was killed may leave it, is not read.
func Load(path string) (*State, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	s := &State{Results: map[int]Result{}, Digests: map[int]uint64{}}
	line, err := r.ReadBytes('\n')
	if err == io.EOF {
		return nil, nil // it was being begun
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &s.Header); err != nil || s.Header.Version != Version {
		return nil, fmt.Errorf("%s: it isn't the journal of a batch, or that of another version of this program", path)
	}
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		var e entry
		if json.Unmarshal(line, &e) != nil || e.Number < 1 {
			return s, nil
		}
		s.Digests[e.Number] = e.Digest
		if e.Result != nil {
			s.Results[e.Number] = Result{e.Digest, append(e.Result, '\n')}
			continue
		}
		for number := range s.Results {
			if number <= e.Number {
				delete(s.Results, number)
			}
		}
	}
}

// Journal is a journal that is being written. It may be used by several goroutines.
type Journal struct {
	path   string
	header []byte

	mu      sync.Mutex
	file    *os.File
	size    int64          // bytes in the file
	live    map[int]Result // that aren't in the output
	bytes   int64          // of their lines
	written entry          // the latest of Written
}

// Create begins a journal in place of any at path, and keeps the results in it that a
// former one held. It must be closed.
func Create(path string, h Header, results map[int]Result) (*Journal, error) {
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: path, header: append(header, '\n'), live: map[int]Result{}}
	for number, r := range results {
		j.live[number] = r
		j.bytes += int64(len(r.Line))
	}
	return j, j.rewrite()
}

// Keep adds the result of a line that can't be written to the output yet. line is one
// line of JSON with its end. The Journal refers to it, so it must not change.
func (j *Journal) Keep(number int, digest uint64, line []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if number <= j.written.Number {
		return nil
	}
	r := Result{digest, line}
	j.live[number] = r
	j.bytes += int64(len(r.Line))
	return j.append(r.appendTo(nil, number))
}

// Written says that the results of all lines up to a number are in the output.
func (j *Journal) Written(number int, digest uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for n, r := range j.live {
		if n <= number {
			j.bytes -= int64(len(r.Line))
			delete(j.live, n)
		}
	}
	j.written = entry{Number: number, Digest: digest}
	if j.size > spare+2*j.bytes {
		return j.rewrite()
	}
	return j.append(j.written.appendTo(nil))
}

// spare is how many bytes a journal may have besides twice what it must hold, until
// it is written anew.
const spare = 1 << 20

// append adds whole lines to the file.
func (j *Journal) append(lines []byte) error {
	n, err := j.file.Write(lines)
	j.size += int64(n)
	return err
}

func (r Result) appendTo(b []byte, number int) []byte {
	b = fmt.Appendf(b, `{"line":%d,"input":%d,"result":`, number, r.Digest)
	b = append(b, bytes.TrimSuffix(r.Line, []byte("\n"))...) // not by package json, which might change it
	return append(b, "}\n"...)
}

func (e entry) appendTo(b []byte) []byte {
	return fmt.Appendf(b, `{"line":%d,"input":%d}`+"\n", e.Number, e.Digest)
}

// rewrite replaces the file by one with nothing but what is needed.
func (j *Journal) rewrite() error {
	text := bytes.Clone(j.header)
	if j.written.Number > 0 {
		text = j.written.appendTo(text)
	}
	for number, r := range j.live {
		text = r.appendTo(text, number)
	}
	if err := j.Close(); err != nil {
		return err
	}
	next := j.path + ".new" // of a process that was killed nothing is wanted
	if err := os.WriteFile(next, text, 0o666); err != nil {
		return err
	}
	if err := os.Rename(next, j.path); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	j.file, j.size = f, int64(len(text))
	return nil
}

// Close ends the writing. The file stays.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// Remove ends the writing, and removes the file: the output is complete.
func (j *Journal) Remove() error { return errors.Join(j.Close(), os.Remove(j.path)) }
