// Command gpucheck checks Leat on this machine's GPU, and measures it against what
// the GPU can do at most. It is made for a machine without Go: make gpu-bundle lays it
// beside all it needs, and gpu-check.sh runs it. It
//
//   - measures the ceilings: memory copied, multiply-adds of floats and of bytes;
//   - runs the kernels' own tests, which compare each with its twin on the CPU;
//   - has a small real model write a text, on the CPU and on the GPU in several ways;
//   - makes a model of 1.1 billion parameters in each of three types, compares the
//     logits with the CPU's, and measures prefill and decode;
//   - measures each kernel on shapes that such models have.
//
// The report, in Markdown, goes to standard output, progress to standard error. What
// the budget of time has no room for is named in the report. Exit status: 0 all is
// right, however slow; 1 something is wrong, or there was no time to check all that
// must be right; 2 wrong usage; 130 interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	_ "github.com/leat-dev/leat/backends"
	_ "github.com/leat-dev/leat/device/cpu"
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
	budget time.Duration
	quick  bool
	device string
	tests  string
	bundle string
	dir    string
	output string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	f := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.DurationVar(&o.budget, "budget", 5*time.Minute, "take no longer than `TIME`; what doesn't fit is skipped, and named")
	f.BoolVar(&o.quick, "quick", false, "small shapes and models: to try the check itself, not a GPU")
	f.StringVar(&o.device, "device", "cuda:0", "the `GPU`")
	f.StringVar(&o.tests, "tests", ".", "run the kernel tests whose names match `REGEXP`")
	f.StringVar(&o.bundle, "bundle", beside(), "the `folder` that make gpu-bundle made")
	f.StringVar(&o.dir, "dir", "", "make models, of up to 2.3 GB, one at a time, in `folder` (the system's for temporary files)")
	f.StringVar(&o.output, "o", "", "write the report to `FILE` too")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if f.NArg() > 0 || o.budget <= 0 {
		fmt.Fprintln(stderr, "gpucheck: it takes flags only, and a budget above 0; -h lists them")
		return 2
	}
	right, err := checkAll(ctx, o, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "gpucheck: interrupted")
		return 130
	case err != nil:
		fmt.Fprintln(stderr, "gpucheck:", err)
		return 1
	case !right:
		return 1
	}
	return 0
}

// beside is the folder of the program itself.
func beside() string {
	path, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(path)
}

// checkAll writes the report, and says whether all is right. The error is of what
// kept it from making one.
func checkAll(ctx context.Context, o options, stdout, stderr io.Writer) (right bool, err error) {
	outputs := []io.Writer{stdout}
	if o.output != "" { // now, and not after minutes, to find that it can't be written
		f, err := os.Create(o.output)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		outputs = append(outputs, f)
	}
	dir, err := os.MkdirTemp(o.dir, "leat-gpu-check-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	now := time.Now()
	c := &check{
		options: o, sizes: fullSizes, models: fullModel, dir: dir,
		log: stderr, began: now, deadline: now.Add(o.budget),
	}
	if o.quick {
		c.sizes, c.models = quickSizes, quickModel
	}
	if err := c.look(); err != nil {
		return false, err
	}
	c.runAll(ctx)
	if _, err := io.WriteString(io.MultiWriter(outputs...), c.report.markdown()); err != nil {
		return false, err
	}
	return len(c.report.wrong) == 0 && !c.report.partial, nil
}
