package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// assembler is the wheel with ptxas, which does to PTX what a driver does. It is newer
// than the compiler, since it must know GPUs that came later.
const assembler = "nvidia-cuda-nvcc-cu12==12.9.86"

// targets are the GPUs that the kernels are assembled for: Turing, Ampere (A100, RTX
// 30), Ada, Hopper, Blackwell (B200, RTX 50).
var targets = []string{"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}

// usage is what a kernel takes on one GPU: registers a thread, bytes of shared memory a
// block, bytes a thread of local memory, and of those what is spilled.
type usage struct{ registers, shared, stack, spilled int }

// report is each kernel's usage on each target.
type report struct {
	kernels []string // by name
	of      map[string]map[string]usage
}

func (r *report) spills() []string {
	var found []string
	for _, k := range r.kernels {
		for _, t := range targets {
			if n := r.of[k][t].spilled; n > 0 {
				found = append(found, fmt.Sprintf("%s spills %d bytes on %s", k, n, t))
			}
		}
	}
	return found
}

// assemble has ptxas make machine code of the PTX for every target.
func assemble(ctx context.Context, ptxas string, ptx []byte) (*report, error) {
	if err := os.Chmod(ptxas, 0o755); err != nil { // zipfile doesn't keep modes
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leat-ptxas-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "kernels.ptx")
	if err := os.WriteFile(file, ptx, 0o644); err != nil {
		return nil, err
	}
	r := &report{of: map[string]map[string]usage{}}
	for _, t := range targets {
		out, err := exec.CommandContext(ctx, ptxas, "-v", "--warn-on-spills", "--gpu-name", t, "--output-file", filepath.Join(dir, t), file).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("ptxas for %s: %w\n%s", t, err, out)
		}
		if err := r.add(t, string(out)); err != nil {
			return nil, fmt.Errorf("ptxas for %s: %w", t, err)
		}
	}
	for k := range r.of {
		r.kernels = append(r.kernels, k)
		if n := len(r.of[k]); n != len(targets) {
			return nil, fmt.Errorf("ptxas says what %s takes on %d targets of %d", k, n, len(targets))
		}
	}
	slices.Sort(r.kernels)
	if len(r.kernels) == 0 {
		return nil, errors.New("ptxas found no kernels")
	}
	return r, nil
}

var (
	entry     = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	memory    = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	registers = regexp.MustCompile(`Used (\d+) registers`)
	shared    = regexp.MustCompile(`(\d+) bytes smem`)
)

// add reads what ptxas -v said: of each kernel a line with its name, one with its
// memory, one with its registers.
func (r *report) add(target, said string) error {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n } // digits, and few
	name, u := "", usage{}
	for line := range strings.Lines(said) {
		if m := entry.FindStringSubmatch(line); m != nil {
			name, u = m[1], usage{stack: -1}
		}
		if m := memory.FindStringSubmatch(line); m != nil {
			u.stack, u.spilled = number(m[1]), number(m[2])+number(m[3])
		}
		m := registers.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if name == "" || u.stack < 0 {
			return fmt.Errorf("not understood: %s", line)
		}
		u.registers = number(m[1])
		if m := shared.FindStringSubmatch(line); m != nil {
			u.shared = number(m[1])
		}
		if r.of[name] == nil {
			r.of[name] = map[string]usage{}
		}
		r.of[name][target] = u
		name = ""
	}
	return nil
}

// write writes a table of Markdown: registers a thread on each target, and what is
// spilled, if anything is.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| kernel | shared memory | %s | spilled | local memory |\n", strings.Join(targets, " | "))
	fmt.Fprintf(&b, "|---|---:|%s---:|---:|\n", strings.Repeat("---:|", len(targets)))
	for _, k := range r.kernels {
		fmt.Fprintf(&b, "| %s ", strings.TrimPrefix(k, "leat_"))
		most := usage{}
		for _, u := range r.of[k] {
			most.shared, most.stack, most.spilled = max(most.shared, u.shared), max(most.stack, u.stack), max(most.spilled, u.spilled)
		}
		fmt.Fprintf(&b, "| %d ", most.shared)
		for _, t := range targets {
			fmt.Fprintf(&b, "| %d ", r.of[k][t].registers)
		}
		fmt.Fprintf(&b, "| %d | %d |\n", most.spilled, most.stack)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
