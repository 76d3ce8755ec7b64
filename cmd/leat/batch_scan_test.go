package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScanner(t *testing.T) {
	type line struct {
		number int
		text   string
		end    int64
	}
	all := func(in io.Reader) (lines []line) {
		s := newScanner(in)
		s.r = bufio.NewReaderSize(in, 16)
		for {
			l, err := s.next()
			if err != nil {
				require.Equal(t, io.EOF, err)
				return lines
			}
			require.NoError(t, l.err)
			lines = append(lines, line{l.number, string(l.text), l.end})
		}
	}
	long := strings.Repeat("long", 100)
	for in, want := range map[string][]line{
		"":                   nil,
		"\n\r\n \t\n":        nil,
		"a":                  {{1, "a", 1}},
		"a\r\n\r\n b \nc":    {{1, "a", 3}, {3, "b", 9}, {4, "c", 10}},
		"\uFEFFa\n\uFEFFb\n": {{1, "a", 5}, {2, "\uFEFFb", 10}},
		"\uFEFF\na":          {{2, "a", 5}},
		long + "\n" + long:   {{1, long, 401}, {2, long, 801}},
	} {
		assert.Equal(t, want, all(strings.NewReader(in)), "%q", in)
		assert.Equal(t, want, all(iotest.OneByteReader(strings.NewReader(in))), "%q", in)
	}
}

// A line that is too long is passed over without being kept.
func TestScannerLongLines(t *testing.T) {
	longest := strings.Repeat("x", longestLine-1) + "\n"
	s := newScanner(strings.NewReader(longest + "y" + longest + "z\n" + "y" + longest[:longestLine-1] + "y"))
	for i, want := range []int{longestLine - 1, 0, 1, 0} {
		l, err := s.next()
		require.NoError(t, err)
		assert.Equal(t, i+1, l.number)
		assert.Len(t, l.text, want)
		if want == 0 {
			assert.EqualError(t, l.err, "it is longer than 16.0 MiB")
		} else {
			assert.NoError(t, l.err)
		}
	}
	_, err := s.next()
	assert.Equal(t, io.EOF, err)

	o := batch(t, "y"+longest+`{"id":1,"prompt":"The","max_tokens":1}`)
	failed(t, o, "1 of 2 lines failed")
	got := results(t, o.out)
	assert.Equal(t, "line 1: it is longer than 16.0 MiB", got[0].Error)
	assert.Equal(t, "null", string(got[0].ID))
	assert.Equal(t, "1", string(got[1].ID))
}

func TestScannerBreaksOff(t *testing.T) {
	s := newScanner(io.MultiReader(strings.NewReader("a\nhalf"), brokenReader{errors.New("cut off")}))
	_, err := s.next()
	require.NoError(t, err)
	_, err = s.next()
	assert.EqualError(t, err, "cut off", "half a line is none")
	assert.Equal(t, 1, s.number)
}

// A write that the disk cuts short leaves whole lines.
func TestBatchOutputIsWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	o, err := openBatchOutput(t.Context(), path, nil)
	require.NoError(t, err)
	require.NoError(t, o.begin(true))
	_, err = o.Write([]byte("one\ntwo\n"))
	require.NoError(t, err)
	o.w = &shortWriter{o.file, 9}
	_, err = o.Write([]byte("three\nfour\n"))
	require.ErrorIs(t, err, io.ErrShortWrite)
	half, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\nthree\nfou", string(half))
	require.NoError(t, o.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\nthree\n", string(whole))
}

// shortWriter has room for so many bytes.
type shortWriter struct {
	io.Writer
	room int
}

func (s *shortWriter) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p[:min(len(p), s.room)])
	if s.room -= n; err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Nothing is waited for that can't come any more.
func TestBatchWaitsForNoMore(t *testing.T) {
	o := batch(t, `{"prompt":"Once upon a time","max_tokens":4,"temperature":0}`, "--max-wait", "1h")
	assert.Equal(t, exitDone, o.status, o.err)
	assert.Len(t, results(t, o.out), 1)
}

// Where all requests are there from the beginning, an option to wait for more is an
// error, and no help mentions it.
func TestNothingToWaitFor(t *testing.T) {
	for command, more := range map[string][]string{
		"run": {"-m", storiesFile, "-p", "Once"}, "logits": {"-m", storiesFile, "--tokens", "1", "-o", "x"},
		"bench": {"-m", storiesFile}, "demo": nil,
	} {
		o := leat(t, append([]string{command, "--max-wait", "1h"}, more...)...)
		assert.Equal(t, exitUsage, o.status, command)
		assert.Contains(t, o.err, "--max-wait: ", command)
		assert.Contains(t, o.err, "nothing to wait for", command)
		assert.NotContains(t, done(t, command, "--help"), "--max-wait", command)
	}
	assert.Contains(t, done(t, "batch", "--help"), "--max-wait")
	done(t, greedy("--max-wait", "0", "-n", "1")...)
	done(t, "plan", "-m", storiesFile, "--max-wait", "1ms") // as for the batch that it is to be run with
}
