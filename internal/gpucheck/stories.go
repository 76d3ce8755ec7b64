package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stories"
)

const opening = "Once upon a time"

// runStories has a real model, of 260 thousand parameters, write the same text on the
// CPU and on the GPU, alone and in a pipeline, and compares its logits: within a bound
// with the CPU's, to the bit however the GPU computes them.
func (c *check) runStories(ctx context.Context) error {
	path := filepath.Join(c.dir, stories.Name)
	if err := os.WriteFile(path, stories.GGUF, 0o644); err != nil {
		return err
	}
	want, err := c.story(ctx, path, "cpu")
	if err != nil {
		return err
	}
	ways := []string{c.device, c.device + "," + c.device, c.device + ",cpu", "cpu," + c.device}
	pipelines := []string{c.device + "," + c.device}
	found, _ := device.Discover()
	if i := slices.IndexFunc(found, func(d device.Info) bool { return d.Kind == device.CUDA && d.Name != c.device }); i >= 0 {
		pipelines = append(pipelines, c.device+","+found[i].Name)
		ways = append(ways, pipelines[1])
	}
	s := section{title: "stories260K"}
	done := func(format string, v ...any) { s.lines = append(s.lines, fmt.Sprintf(format, v...)) }
	defer func() { c.report.add(s) }()
	for _, devices := range ways {
		got, err := c.story(ctx, path, devices)
		if err != nil {
			return err
		}
		if got.Text != want.Text {
			return fmt.Errorf("the text on %s isn't the CPU's\n%s\n\nThe CPU's:\n%s", devices, got.Text, want.Text)
		}
	}
	done("greedy text of %d tokens, the CPU's on each of: %s", len(want.Tokens), strings.Join(ways, "; "))

	tokens := append(slices.Clone(want.Prompt), want.Tokens...)
	on := func(args ...string) ([]float32, error) { return c.logits(ctx, path, tokens, args...) }
	cpu, err := on("--devices", "cpu")
	if err != nil {
		return err
	}
	gpu, err := on("--devices", c.device)
	if err != nil {
		return err
	}
	far := distance(gpu, cpu)
	if !(far <= floatBound) {
		return fmt.Errorf("the logits' relative error against the CPU is %.2g, it may be %.2g", far, floatBound)
	}
	done("logits of %d tokens: relative error %.2g against the CPU (%.2g is allowed)", len(tokens), far, floatBound)
	cuts := [][]string{{"--devices", c.device, "--max-batch", "7"}}
	for _, p := range pipelines {
		cuts = append(cuts, []string{"--devices", p})
	}
	for _, cut := range cuts {
		got, err := on(cut...)
		if err != nil {
			return err
		}
		if !slices.Equal(got, gpu) {
			return fmt.Errorf("logits with %s aren't those of %s to the bit", strings.Join(cut, " "), c.device)
		}
		done("logits with %s: those of %s to the bit", strings.Join(cut, " "), c.device)
	}
	return nil
}

// storyDocument is what is read of leat run --json.
type storyDocument struct {
	Text   string  `json:"text"`
	Prompt []int32 `json:"prompt_token_ids"`
	Tokens []int32 `json:"tokens"`
}

// story is the text that a model writes, the likeliest token each time.
func (c *check) story(ctx context.Context, path, devices string) (d storyDocument, err error) {
	out, err := c.leat(ctx, "run", "-m", path, "-p", opening, "--temp", "0", "-n", fmt.Sprint(c.sizes.story),
		"--devices", devices, "--json")
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, fmt.Errorf("leat run --json on %s: %w", devices, err)
	}
	if len(d.Tokens) == 0 {
		return d, fmt.Errorf("leat run on %s wrote nothing", devices)
	}
	return d, nil
}
