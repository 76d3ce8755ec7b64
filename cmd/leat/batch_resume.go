package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/journal"
	"github.com/leat-dev/leat/pipeline/generate"
)

// journalEnding is that of the journal beside an output.
const journalEnding = ".resume"

// resumption is what a batch continues from: the results in its output, and the
// journal beside it.
type resumption struct {
	anew    bool  // nothing is kept
	past    *past // nil: nothing is there
	results map[int]journal.Result
	path    string // of the journal; "": none is to be kept
	missing error  // why none can be kept
}

// resume looks at what stands in the output. Without --resume and --overwrite it
// refuses an output with results, or with anything else. A seed that wasn't given
// becomes that of the results.
func (f *batchFlags) resume(c *cobra.Command, out *batchOutput) (*resumption, error) {
	if !out.regular {
		for flag, given := range map[string]bool{"resume": f.resumed, "overwrite": f.overwrite} {
			if given {
				return nil, usage("--%s: -o %s isn't a file whose lines could be kept or replaced", flag, f.out)
			}
		}
		return &resumption{anew: true}, nil
	}
	r := &resumption{anew: true, path: f.out + journalEnding}
	state, err := journal.Load(r.path)
	if errors.As(err, new(*fs.PathError)) {
		r.path, r.missing = "", err
	} else if err != nil {
		return nil, err
	}
	if f.overwrite {
		return r, nil
	}
	info, err := out.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if !f.resumed {
		switch {
		case info.Size() > 0:
			return nil, fmt.Errorf("-o %s isn't empty: go on with the results in it with --resume, replace it with --overwrite, or name another file", f.out)
		case state != nil && len(state.Results) > 0:
			return nil, fmt.Errorf("%s holds %s of a run that was ended: go on with --resume, or begin anew with --overwrite", r.path, counted(len(state.Results), "result"))
		}
		return r, nil
	}
	written, err := out.found()
	if err != nil || written == 0 && state == nil {
		return r, err
	}
	r.anew = false
	r.past = &past{written: written, journal: state, path: f.out}
	if r.past.file, err = os.Open(f.out); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	r.past.lines = bufio.NewReaderSize(r.past.file, 1<<16)
	given := c.Flags().Changed("seed")
	if state == nil {
		if r.past.unknown = !given; !given {
			r.path = "" // there is nothing to go on with but what is complete
		}
		return r, nil
	}
	r.results = state.Results
	if given && f.generation.sampling.Seed != state.Header.Seed {
		return r, usage("--seed %d: -o %s was begun with --seed %d", f.generation.sampling.Seed, f.out, state.Header.Seed)
	}
	f.generation.sampling.Seed = state.Header.Seed
	return r, f.sameSettings(state.Header.Settings)
}

// sameSettings refuses flags with which other results would follow than those that
// are there.
func (f *batchFlags) sameSettings(before map[string]string) error {
	now := f.settings()
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if was, known := before[name]; known && was != now[name] {
			return usage("%s is %s now, and was %s when -o %s was begun: resume with the same, or begin anew with --overwrite",
				name, short(now[name]), short(was), f.out)
		}
	}
	return nil
}

// settings are the flags that a result depends on, as they stand in the journal.
func (f *batchFlags) settings() map[string]string {
	s := &f.generation.sampling
	settings := map[string]string{
		"-n":               fmt.Sprint(f.generation.maxTokens),
		"--temp":           fmt.Sprint(s.Temperature),
		"--top-k":          fmt.Sprint(s.TopK),
		"--top-p":          fmt.Sprint(s.TopP),
		"--min-p":          fmt.Sprint(s.MinP),
		"--repeat-penalty": fmt.Sprint(s.RepeatPenalty),
		"--stop":           strings.Trim(fmt.Sprintf("%q", f.generation.stop), "[]"),
		"--raw":            fmt.Sprint(f.generation.raw),
		"--logprobs":       f.generation.logProbs.String(),
		"--ctx":            fmt.Sprint(f.pipeline.context),
		"--kv":             f.pipeline.kv.String(),
	}
	if info, err := os.Stat(f.model); err == nil {
		settings["the size of -m"] = fmt.Sprintf("%d bytes", info.Size())
	}
	return settings
}

// begin makes output and journal ready. Where no journal can be kept, the batch goes
// on without.
func (r *resumption) begin(f *batchFlags, out *batchOutput, warn func(error)) (*journal.Journal, error) {
	if r.anew && r.path != "" { // of what is replaced nothing may be taken for the new
		if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := out.begin(r.anew); err != nil {
		return nil, err
	}
	if r.missing != nil {
		warn(r.missing)
	}
	if r.path == "" {
		return nil, nil
	}
	header := journal.Header{Version: journal.Version, Seed: f.generation.sampling.Seed, Settings: f.settings()}
	j, err := journal.Create(r.path, header, r.results)
	if err != nil {
		warn(err)
		return nil, nil
	}
	return j, nil
}

// past is the state that an earlier run of the same batch has left.
type past struct {
	file    *os.File      // the output, from its start
	lines   *bufio.Reader // of it
	written int           // results in it that haven't been met yet
	journal *journal.State
	path    string
	unknown bool // the journal is missing, and so is the seed
}

// otherInput is the error of an input that isn't the one of the results that are there.
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

// ended returns an error if the input had fewer lines than there are results.
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

// resultOf reads the line of a result: its id, byte for byte, and whether its line
// failed.
func resultOf(line []byte) (id []byte, failed, ok bool) {
	var r struct {
		ID     json.RawMessage `json:"id"`
		Finish generate.Finish `json:"finish"`
	}
	if json.Unmarshal(line, &r) != nil {
		return nil, false, false
	}
	return r.ID, r.Finish == generate.Failed, true
}
