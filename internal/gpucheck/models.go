package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// runModel makes a model of a type, compares its logits on the CPU and on the GPU,
// measures it on the GPU and removes it.
func (c *check) runModel(ctx context.Context, name string) (err error) {
	typ, err := typeNamed(name)
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, name+".gguf")
	m := c.models
	began := time.Now()
	_, _, err = c.run(ctx, "mkgguf", "-o", path, "-type", name, "-unit", "-embd", strconv.Itoa(m.width), "-ff", strconv.Itoa(m.hidden),
		"-layers", strconv.Itoa(m.layers), "-heads", strconv.Itoa(m.heads), "-kv", strconv.Itoa(m.kv), "-vocab", strconv.Itoa(m.vocab))
	defer func() {
		if failed := os.Remove(path); !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}()
	if err != nil {
		return err
	}
	made := time.Since(began)
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	s := section{title: fmt.Sprintf("Model of %s parameters in %s", count(m.parameters()), name)}
	defer func() { c.report.add(s) }()
	s.lines = append(s.lines, fmt.Sprintf("%s, made in %.1f s", device.FormatSize(file.Size()), made.Seconds()))
	if err := c.compare(ctx, &s, path, typ); err != nil {
		return err
	}
	return c.bench(ctx, &s, path, typ)
}

// weightTypes are those that GPUs have kernels for.
var weightTypes = kernels.Types{
	kernels.F32, kernels.F16, kernels.BF16, kernels.Q8_0, kernels.Q4_0, kernels.Q4_K, kernels.Q6_K,
}

func typeNamed(name string) (kernels.Type, error) {
	for _, t := range weightTypes {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("no type of weights is called %s", name)
}

// compare compares logits: with the CPU's within a bound, and to the bit with those of
// few rows at a time, for which other kernels compute the products.
func (c *check) compare(ctx context.Context, s *section, path string, typ kernels.Type) error {
	tokens := make([]int32, c.models.compared)
	for i := range tokens {
		tokens[i] = int32(1 + i*7919%(c.models.vocab-1))
	}
	cpu, err := c.logits(ctx, path, tokens, "--devices", "cpu")
	if err != nil {
		return err
	}
	gpu, err := c.logits(ctx, path, tokens, "--devices", c.device)
	if err != nil {
		return err
	}
	bound := floatBound
	if typ.Quantized() {
		bound = integerBound
	}
	far := distance(gpu, cpu)
	if !(far <= bound) {
		return fmt.Errorf("the logits' relative error against the CPU is %.2g, it may be %.2g", far, bound)
	}
	s.lines = append(s.lines, fmt.Sprintf("logits of %d tokens: relative error %.2g against the CPU (%.2g is allowed)", len(tokens), far, bound))
	few, err := c.logits(ctx, path, tokens, "--devices", c.device, "--max-batch", fewRows)
	if err != nil {
		return err
	}
	if !slices.Equal(few, gpu) {
		return fmt.Errorf("logits of %s rows at a time aren't those of all at once to the bit", fewRows)
	}
	s.lines = append(s.lines, "logits of "+fewRows+" rows at a time: those of all at once to the bit")
	return nil
}

// fewRows is how many rows the kernels for single rows still take.
const fewRows = "3"

// benchDocument is what is read of leat bench --json.
type benchDocument struct {
	Results []struct {
		Test        string  `json:"test"`
		Tokens      int     `json:"tokens"`
		Concurrency int     `json:"concurrency"`
		Speed       float64 `json:"tps"`
	} `json:"results"`
}

// bench measures prefill and decode.
func (c *check) bench(ctx context.Context, s *section, path string, typ kernels.Type) error {
	m := c.models
	out, err := c.leat(ctx, "bench", "-m", path, "--devices", c.device, "--ctx", strconv.Itoa(m.prefill+m.decode+32),
		"--prefill", strconv.Itoa(m.prefill), "--decode", strconv.Itoa(m.decode), "--repeat", strconv.Itoa(m.repeat), "--json")
	if errors.Is(err, context.DeadlineExceeded) {
		c.report.skip(fmt.Sprintf("the speed of the model in %v", typ), "there was no more time")
		return nil
	}
	if err != nil {
		return err
	}
	var doc benchDocument
	if err := json.Unmarshal(out, &doc); err != nil {
		return fmt.Errorf("leat bench --json: %w", err)
	}
	if len(doc.Results) == 0 {
		return errors.New("leat bench has measured nothing")
	}
	rate := c.most.fma
	if typ.Quantized() {
		rate = c.most.dp4a
	}
	read := m.bytes(typ)
	s.table = [][]string{{"test", "sequences", "tokens/s", "weights read, GB/s", "TOP/s", "of ceiling"}}
	for _, r := range doc.Results {
		// The rows of a step: of all sequences together where they decode, of the
		// prompts where they don't; the head gets a row of each sequence.
		rows := float64(r.Concurrency)
		head := rows * float64(m.head())
		if r.Test == "prefill" {
			rows *= float64(r.Tokens)
		}
		w := work{bytes: read, macs: rows*float64(m.blocks()) + head, rate: rate}
		step := time.Duration(rows / r.Speed * float64(time.Second))
		s.table = append(s.table, []string{
			fmt.Sprintf("%s, %d tokens", r.Test, r.Tokens), strconv.Itoa(r.Concurrency), significant(r.Speed),
			giga(read / step.Seconds()), tera(2 * w.macs / step.Seconds()), c.ofCeiling(w, step),
		})
		c.say("%v, %s of %d tokens at %d: %s tokens/s", typ, r.Test, r.Tokens, r.Concurrency, significant(r.Speed))
	}
	s.note = "Of the matrices alone: their weights are read once a step, and the ceiling is the longer of the two times that their bytes and multiply-adds take at the ceilings above."
	return nil
}

// blocks is how many parameters the blocks' matrices have: a row has as many
// multiply-adds.
func (m modelShape) blocks() int {
	kv := m.width / m.heads * m.kv
	return m.layers * (2*m.width*m.width + 2*m.width*kv + 3*m.width*m.hidden)
}

// head is that of the output's matrix.
func (m modelShape) head() int { return m.width * m.vocab }

// parameters counts the embedding's, too.
func (m modelShape) parameters() int { return m.blocks() + 2*m.head() }

// bytes are those of the weights that a step reads, the embedding's rows apart.
func (m modelShape) bytes(typ kernels.Type) float64 {
	elems, size := typ.Block()
	return float64(m.blocks()+m.head()) / float64(elems) * float64(size)
}

// count is a large number in words.
func count(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f billion", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f million", float64(n)/1e6)
	}
	return strconv.Itoa(n)
}
