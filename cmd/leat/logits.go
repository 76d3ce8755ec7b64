package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/pipeline/generate"
)

type logitsFlags struct {
	model    string
	tokens   []uint64
	out      string
	json     bool
	pipeline pipelineFlags
}

func logitsCommand() *cobra.Command {
	var f logitsFlags
	c := &cobra.Command{
		Use:   "logits -m FILE --tokens 1,2,3 -o OUT.f32",
		Short: "Write the logits of every position",
		Long: `Writes the model's logits at every position of exactly these tokens: little-endian
float32, a row of the vocabulary's size a token. The file appears when all rows are
there; -o - writes to standard output.`,
		Example: `  leat logits -m model.gguf --tokens 1,403,407 -o out.f32
  leat logits -m model.gguf --tokens "$(leat tokenize -m model.gguf Hello)" -o out.f32`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	read(flags, "tokens", "", "the tokens' ids, `1,2,3`", &f.tokens, list(tokenID))
	flags.StringVarP(&f.out, "output", "o", "", "write to `FILE`; -: standard output")
	outputFile(flags, "output")
	jsonFlag(flags, &f.json)
	f.pipeline.add(c, 1)
	f.pipeline.waitsForNone("there is one text")
	return c
}

func tokenID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errors.New("tokens are whole numbers from 0 on, separated by commas")
	}
	return id, nil
}

func (f *logitsFlags) run(c *cobra.Command) (err error) {
	switch {
	case len(f.tokens) == 0:
		return usage("no tokens: give their ids with --tokens 1,2,3")
	case f.out == "":
		return usage("no output: name a file with -o FILE")
	case files.IsStandardOutput(f.out) && f.json:
		return usage("-o - and --json exclude each other: both print to standard output")
	}
	if err := f.pipeline.check(); err != nil {
		return err
	}
	m, err := openModel(c.Context(), f.model)
	if err != nil {
		return err
	}
	defer closing(m, &err)
	tokens, err := inVocabulary(f.tokens, m.Vocab)
	if err != nil {
		return err
	}
	out, err := files.Create(c.Context(), f.out, c.OutOrStdout())
	if err != nil {
		return err
	}
	defer out.Discard()
	e, err := f.pipeline.start(c.Context(), c.ErrOrStderr(), m)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	if err := writeLogits(c.Context(), out, e.Engine, tokens); err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	if f.json {
		return printJSON(c.OutOrStdout(), logitsDocument{len(tokens), m.Vocab, f.out})
	}
	return nil
}

// inVocabulary returns ids as the engine takes them.
func inVocabulary(ids []uint64, vocab int) ([]int32, error) {
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		if id >= uint64(vocab) {
			return nil, fmt.Errorf("token %d: the model has tokens 0 to %d", id, vocab-1)
		}
		tokens[i] = int32(id)
	}
	return tokens, nil
}

func writeLogits(ctx context.Context, w io.Writer, e *generate.Engine, tokens []int32) error {
	var b []byte
	position := 0
	for row, err := range e.Logits(ctx, tokens) {
		if err != nil {
			return err
		}
		b = b[:0]
		for id, x := range row {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("at position %d the logit of token %d is %v, which no model means: the file's weights are damaged", position, id, x)
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		position++
	}
	return nil
}

// logitsDocument is what leat logits --json prints.
type logitsDocument struct {
	Tokens int    `json:"tokens"`
	Vocab  int    `json:"vocab"`
	File   string `json:"file"`
}
