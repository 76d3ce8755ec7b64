package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// check is one run of the program.
type check struct {
	options
	sizes  sizes
	models modelShape
	dir    string // for what is made on the way
	log    io.Writer

	began, deadline time.Time
	report          report
	most            ceilings
}

// step is a part of the check.
type step struct {
	name     string
	needs    time.Duration // with less time left it isn't begun; the steps before it leave it that much
	measures bool          // and no more: then a lack of time is nothing wrong
	run      func(ctx context.Context) error
}

// steps are all, in order: first what must be right, last what takes the time that is
// left.
func (c *check) steps() []step {
	steps := []step{
		{"ceilings", 10 * time.Second, true, c.measureCeilings},
		{"kernel tests", 60 * time.Second, false, c.runTests},
		{"stories260K", 20 * time.Second, false, c.runStories},
	}
	for _, typ := range c.models.types {
		steps = append(steps, step{"model in " + typ, 35 * time.Second, false, func(ctx context.Context) error { return c.runModel(ctx, typ) }})
	}
	return append(steps,
		step{"products", 20 * time.Second, true, c.measureProducts},
		step{"attention", 10 * time.Second, true, c.measureAttention},
		step{"other ops", 5 * time.Second, true, c.measureOps})
}

// runAll runs all steps that there is time for.
func (c *check) runAll(ctx context.Context) {
	steps := c.steps()
	var later time.Duration // what the steps after this one need
	for _, s := range steps {
		later += s.needs
	}
	for _, s := range steps {
		later -= s.needs
		if ctx.Err() != nil {
			return
		}
		left := time.Until(c.deadline)
		if left < s.needs {
			c.report.partial = c.report.partial || !s.measures
			c.report.skip(s.name, "%v were left of %v, it may need %v", left.Round(time.Second), c.budget, s.needs)
			continue
		}
		c.say("%s", s.name)
		end := c.deadline.Add(-min(later, left-s.needs))
		own, cancel := context.WithDeadline(ctx, end)
		err := s.run(own)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil:
		case s.measures && errors.Is(err, context.DeadlineExceeded):
			c.report.skip("the rest of "+s.name, "there was no more time")
		default:
			first, _, _ := strings.Cut(err.Error(), "\n") // the report has all
			c.say("%s: WRONG: %s", s.name, first)
			c.report.fail(s.name, err)
		}
		c.report.steps++
	}
	c.report.took = time.Since(c.began)
}

// say tells of progress.
func (c *check) say(format string, v ...any) {
	fmt.Fprintf(c.log, "[%4.0f s] %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, v...))
}

// leat runs the command, and returns what it printed. What an emulated driver reports
// on the way is an error.
func (c *check) leat(ctx context.Context, args ...string) ([]byte, error) {
	out, said, err := c.run(ctx, "leat", args...)
	if err == nil && strings.Contains(said, "emulated GPU: ") {
		err = fmt.Errorf("leat %s: the emulated driver reports\n%s", strings.Join(args, " "), lastLines(said, 20))
	}
	return out, err
}

// run runs a program of the bundle, and returns what it printed, and what it said
// beside that. The error has the end of that.
func (c *check) run(ctx context.Context, program string, args ...string) (printed []byte, beside string, err error) {
	path, err := filepath.Abs(filepath.Join(c.bundle, program))
	if err != nil {
		return nil, "", err
	}
	var out, said bytes.Buffer
	p := exec.CommandContext(ctx, path, args...)
	p.Dir, p.Stdout, p.Stderr = c.dir, &out, &said
	p.Env = append(os.Environ(), "LEAT_RATES=off", "LEAT_GPU_CHECK=1")
	p.WaitDelay = 5 * time.Second
	err = p.Run()
	switch {
	case err == nil:
		return out.Bytes(), said.String(), nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it was ended, for it took more time than there was: %w", ctx.Err())
	}
	command := strings.Join(append([]string{program}, args...), " ")
	return out.Bytes(), said.String(), fmt.Errorf("%s: %w\n%s", command, err, lastLines(said.String(), 20))
}

// lastLines are at most n lines of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
