package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// runTests runs the tests of package kernels/gpu on the GPU.
func (c *check) runTests(ctx context.Context) error {
	args := []string{"-test.v", "-test.run", c.tests}
	if c.quick {
		args = append(args, "-test.short")
	}
	if end, ok := ctx.Deadline(); ok {
		args = append(args, "-test.timeout", max(time.Second, time.Until(end)-time.Second).Round(time.Second).String())
	}
	out, _, err := c.run(ctx, "kernels.test", args...)
	o := outcomesOf(string(out))
	s := section{title: "Kernel tests", lines: []string{
		fmt.Sprintf("%d passed, %d failed, %d skipped", len(o.passed), len(o.failed), len(o.skipped)),
	}}
	for _, t := range o.failed {
		s.lines = append(s.lines, "FAILED: "+t)
	}
	s.note = strings.Join(o.tables, "\n")
	for _, t := range o.skipped {
		s.lines = append(s.lines, "skipped: "+t)
	}
	c.report.add(s)
	c.say("kernel tests: %s", s.lines[0])
	switch {
	case err != nil:
		if o.said == "" { // it didn't get as far as a test's end
			o.said = lastLines(string(out), 60)
		}
		return fmt.Errorf("%w\n%s", err, o.said)
	case len(o.failed) > 0:
		return fmt.Errorf("%s failed\n%s", strings.Join(o.failed, ", "), o.said)
	case len(o.passed) == 0:
		return fmt.Errorf("no test has run: -tests %s", c.tests)
	}
	return nil
}

// outcomes are tests by how they ended, not counting those within a test.
type outcomes struct {
	passed, failed, skipped []string
	tables                  []string // lines of the tables that were printed
	said                    string   // by those that failed
}

// outcomesOf reads what a test binary prints with -test.v. A skipped test has its
// reason, which is printed before.
func outcomesOf(out string) (o outcomes) {
	ended := regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)
	said, all := "", ""
	for line := range strings.Lines(out) {
		m := ended.FindStringSubmatch(line)
		all += line
		if m == nil {
			if line := strings.TrimSpace(line); strings.HasPrefix(line, "|") {
				o.tables = append(o.tables, line)
			}
			// "    rig_test.go:31: the reason"
			if _, text, ok := strings.Cut(strings.TrimSpace(line), ".go:"); ok {
				if _, reason, ok := strings.Cut(text, ": "); ok {
					said = reason
				}
			}
			continue
		}
		switch name := m[2]; m[1] {
		case "PASS":
			o.passed = append(o.passed, name)
		case "FAIL":
			o.failed = append(o.failed, name)
			o.said += all
		case "SKIP":
			o.skipped = append(o.skipped, name+": "+said)
		}
		all = ""
	}
	return o
}
