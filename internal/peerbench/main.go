// Command peerbench measures Leat beside llama.cpp on models of 1.1 billion parameters
// with random weights, and what the machine does at most, in one run:
//
//	make bench-peer
//	make bench-peer BENCH='-types Q8_0,Q4_K -rounds 1 -layers 4'
//
// For each type of weights it makes a model with mkgguf, kept in a folder outside the
// repository, and runs leat bench and the peer's script in turns. The medians of the
// rounds, their ratios and the goals go to standard output as Markdown, progress to
// standard error. A type that either of the two refuses is a row that says so.
//
// Nothing else should run on the machine meanwhile. Exit status: 0 all was measured,
// whatever goals were missed; 1 it wasn't; 2 wrong usage; 130 interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leat-dev/leat/internal/ceiling"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl+C ends the program at once
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// options are the flags.
type options struct {
	types  []string
	rounds int // 0: as the type is listed
	layers int // 0: as the type is listed
	repeat int
	limit  time.Duration
	quick  bool
	simd   string

	leat, mkgguf, peer, cache, output, json string
}

const usage = `peerbench: Leat beside llama.cpp, in one run. Flags:`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "peerbench:", err)
		return 2
	}
	b := &bench{options: o, log: stderr}
	err = b.run(ctx)
	if b.report.CPU != "" { // what was measured until an error or Ctrl+C is printed, too
		err = errors.Join(err, b.write(stdout))
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "peerbench: interrupted")
		return 130
	case err != nil:
		fmt.Fprintln(stderr, "peerbench:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var types string
	f := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprintln(stderr, usage); f.PrintDefaults() }
	f.StringVar(&types, "types", "named", "types of weights, `T,T,…`; named: "+strings.Join(names(true), ", ")+"; all: these and all others; none: the ceilings alone")
	f.IntVar(&o.rounds, "rounds", 0, "measure each type `N` times (3, all but the named once)")
	f.IntVar(&o.layers, "layers", 0, "make models of `N` layers (16, all but the named 4)")
	f.IntVar(&o.repeat, "repeat", 3, "have leat bench measure each test `N` times a round")
	f.DurationVar(&o.limit, "limit", 5*time.Minute, "give a program no more than `TIME` for a model")
	f.BoolVar(&o.quick, "quick", false, "one round of models of 4 layers")
	f.StringVar(&o.simd, "simd", "", "run Leat at a lower SIMD `LEVEL`, such as avx2: its goals are shares of what that level does at most")
	f.StringVar(&o.leat, "leat", "build/leat", "the command, `FILE`")
	f.StringVar(&o.mkgguf, "mkgguf", "../shared/tools/mkgguf", "source `folder` of the program that makes models")
	f.StringVar(&o.peer, "peer", "../shared/peer/bench-llamacpp.sh", "`FILE` that measures the peer on a model and prints JSON")
	f.StringVar(&o.cache, "cache", "", "keep models in `folder` (leat-models in the user's cache folder)")
	f.StringVar(&o.output, "o", "", "write the table to `FILE` too")
	f.StringVar(&o.json, "json", "", "write all that was measured to `FILE` as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.rounds < 0 || o.layers < 0 || o.repeat < 1 || o.limit <= 0 {
		return o, errors.New("it takes flags only, and positive numbers; -h lists them")
	}
	switch types {
	case "named":
		o.types = names(true)
	case "all":
		o.types = names(false)
	case "none":
	default:
		o.types = strings.Split(types, ",")
		for _, t := range o.types {
			if _, ok := rowOf(t); !ok {
				return o, fmt.Errorf("-types %s: %q is none of %s", types, t, strings.Join(names(false), ", "))
			}
		}
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("no folder for models: %w; give one with -cache", err)
		}
		o.cache = filepath.Join(dir, "leat-models")
	}
	return o, nil
}

// bench is one run.
type bench struct {
	options
	log    io.Writer
	report report
}

func (b *bench) say(format string, v ...any) { fmt.Fprintf(b.log, format+"\n", v...) }

func (b *bench) run(ctx context.Context) error {
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return err
	}
	b.report.look()
	for _, t := range b.types {
		if err := b.ceilings(ctx); err != nil {
			return err
		}
		row, _ := rowOf(t)
		if err := b.measure(ctx, b.adjust(row)); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return b.ceilings(ctx)
}

func (b *bench) ceilings(ctx context.Context) error {
	b.say("measuring what the machine does at most")
	rates, err := ceiling.Measure(ctx, 100*time.Millisecond)
	if err == nil {
		b.report.raise(rates)
	}
	return err
}

// adjust changes a row as the flags say.
func (b *bench) adjust(r row) row {
	if b.quick {
		r.layers, r.rounds = shortLayers, 1
	}
	if b.layers > 0 {
		r.layers = b.layers
	}
	if b.rounds > 0 {
		r.rounds = b.rounds
	}
	return r
}

// write writes the report to where the flags say.
func (b *bench) write(stdout io.Writer) error {
	b.report.judge()
	page := b.report.markdown()
	_, err := io.WriteString(stdout, page)
	if b.output != "" {
		err = errors.Join(err, os.WriteFile(b.output, []byte(page), 0o644))
	}
	if b.json != "" {
		data, e := json.MarshalIndent(&b.report, "", "  ")
		if e == nil {
			e = os.WriteFile(b.json, append(data, '\n'), 0o644)
		}
		err = errors.Join(err, e)
	}
	return err
}
