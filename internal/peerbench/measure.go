package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leat-dev/leat/model/gguf"
)

// measure measures a row and adds its cells to the report. An error is of the
// measurement; what is wrong with the type is part of the report.
func (b *bench) measure(ctx context.Context, r row) error {
	path, err := b.model(ctx, r)
	if err != nil {
		return err
	}
	w, err := weigh(path)
	if err != nil {
		return err
	}
	leat, peer := speeds{}, speeds{}
	for i := range r.rounds {
		b.say("%s, %d layers, round %d of %d: Leat", r.typ, r.layers, i+1, r.rounds)
		level, err := b.runLeat(ctx, path, leat)
		if err != nil {
			return b.refused(ctx, r, "Leat", err)
		}
		b.report.SIMD = level
		b.say("%s, %d layers, round %d of %d: the peer", r.typ, r.layers, i+1, r.rounds)
		commit, err := b.runPeer(ctx, path, peer)
		if err != nil {
			if err := b.refused(ctx, r, "the peer", err); err != nil {
				return err
			}
			break
		}
		b.report.Peer = commit
	}
	b.report.add(r, w, leat, peer)
	return nil
}

// refused notes that a program can't do a type. The end of ctx is no such thing.
func (b *bench) refused(ctx context.Context, r row, who string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	note := fmt.Sprintf("%s: %s: %v", r.typ, who, err)
	b.say("%s", note)
	b.report.Refused = append(b.report.Refused, note)
	return nil
}

// speeds are tokens a second of each round, by test.
type speeds map[string][]float64

func (s speeds) median(test string) float64 {
	v := slices.Clone(s[test])
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// runLeat runs leat bench, adds its speeds and returns the SIMD level.
func (b *bench) runLeat(ctx context.Context, path string, s speeds) (level string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	c := exec.CommandContext(ctx, b.leat, "bench", "-m", path, "--devices", "cpu", "--ctx", "1024",
		"--prefill", "128,512", "--decode", "24", "--repeat", strconv.Itoa(b.repeat), "--json")
	c.Env = os.Environ()
	if b.simd != "" {
		c.Env = append(c.Env, "LEAT_SIMD="+b.simd)
	}
	var doc struct {
		SIMD    string `json:"simd"`
		Results []struct {
			Test        string  `json:"test"`
			Tokens      int     `json:"tokens"`
			Concurrency int     `json:"concurrency"`
			Speed       float64 `json:"tps"`
		} `json:"results"`
	}
	if err := output(ctx, c, &doc); err != nil {
		return "", err
	}
	for _, r := range doc.Results {
		switch {
		case r.Test == "prefill" && r.Tokens == 128:
			s.add(prefill128, r.Speed)
		case r.Test == "prefill":
			s.add(prefill512, r.Speed)
		case r.Concurrency == 1:
			s.add(decode1, r.Speed)
		case r.Concurrency == 16:
			s.add(decode16, r.Speed)
		}
	}
	return doc.SIMD, nil
}

func (s speeds) add(test string, speed float64) { s[test] = append(s[test], speed) }

// runPeer runs the peer's script, adds its speeds and returns which commit it is.
func (b *bench) runPeer(ctx context.Context, path string, s speeds) (commit string, err error) {
	var doc struct {
		Commit string  `json:"commit"`
		PP128  float64 `json:"pp128"`
		PP512  float64 `json:"pp512"`
		TG1    float64 `json:"tg1"`
		TG16   float64 `json:"tg16"`
	}
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	if err := output(ctx, exec.CommandContext(ctx, b.peer, path), &doc); err != nil {
		return "", err
	}
	s.add(prefill128, doc.PP128)
	s.add(prefill512, doc.PP512)
	s.add(decode1, doc.TG1)
	s.add(decode16, doc.TG16)
	return doc.Commit, nil
}

// output runs c, a command of ctx, and reads the JSON that it prints. The error has the
// last line of its standard error.
func output(ctx context.Context, c *exec.Cmd, doc any) error {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	c.WaitDelay = time.Second // for what a script has started
	out, err := c.Output()
	name := filepath.Base(c.Path)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s took longer than -limit allows", name)
	case err != nil:
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("%s: %w: %s", name, err, lines[len(lines)-1])
	}
	if err := json.Unmarshal(out, doc); err != nil {
		return fmt.Errorf("%s printed no JSON: %w", name, err)
	}
	return nil
}

// model returns the path of a row's model, which is made where it isn't there.
func (b *bench) model(ctx context.Context, r row) (string, error) {
	path := filepath.Join(b.cache, fmt.Sprintf("%s-%d.gguf", r.typ, r.layers))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	b.say("%s: making a model of %d layers", r.typ, r.layers)
	tool, err := filepath.Abs(filepath.Join(b.cache, "mkgguf"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", b.mkgguf, "-o", tool, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building mkgguf in %s: %w: %s", b.mkgguf, err, bytes.TrimSpace(out))
	}
	part := path + ".part"
	args := []string{"-o", part, "-layers", strconv.Itoa(r.layers), "-type", r.typ}
	if r.typ == "F32" {
		args = []string{"-o", part, "-layers", strconv.Itoa(r.layers), "-f32"}
	}
	if out, err := exec.CommandContext(ctx, tool, args...).CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("mkgguf: %w: %s", err, bytes.TrimSpace(out)), os.RemoveAll(part))
	}
	return path, os.Rename(part, path)
}

// weights are what a token of a model costs.
type weights struct {
	prefill, decode float64 // multiply-adds with matrices: in a prompt, and with the head
	bytes           float64 // of the matrices that one decoded token reads
}

// weigh reads what a token costs from a model's file.
func weigh(path string) (w weights, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, untied := f.Tensor("output.weight")
	for _, t := range f.Tensors() {
		size := 1.0
		for _, n := range t.Dims {
			size *= float64(n)
		}
		head := t.Name == "output.weight" || t.Name == "token_embd.weight" && !untied
		switch {
		case len(t.Dims) < 2 || t.Name == "token_embd.weight" && untied:
			continue
		case !head:
			w.prefill += size
		}
		w.decode += size
		w.bytes += float64(t.Size)
	}
	return w, nil
}
