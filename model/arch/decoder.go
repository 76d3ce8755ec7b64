package arch

import (
	"fmt"

	"github.com/leat-dev/leat/internal/program"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

// decoder is the description of a decoder-only transformer.
type decoder struct {
	width     int // the number of float32s in a row of activations between layers
	context   int // the number of positions for which the model was trained
	embedding embedding
	blocks    []block
	head      head
}

// embedding returns the rows of token_embd for the batch's tokens.
type embedding struct {
	scale     float32  // of the rows; 0 means 1
	norm      norm     // of the scaled rows
	positions presence // position_embd, which has a row to add for each position
}

// block is a sequence of residuals.
type block []residual

// residual is a part with a residual connection: x + scale·after(part(before(x))).
type residual struct {
	before norm
	part   part
	after  norm
	scale  float32 // 0 means 1
}

// part is a component of a block, such as attention.
type part interface {
	// steps adds the part's steps to the program. It returns a value of the same width as
	// x, and does not change x.
	steps(b *builder, x program.Value) program.Value
}

// sum is the sum of several parts of the same input.
type sum []part

// normed is a part whose input is normalized.
type normed struct {
	norm norm
	part part
}

// head returns logits for the rows that want output: the product of the normalized rows with the
// matrix output, or with token_embd if the file has no output.
type head struct {
	norm    norm
	bias    presence
	scale   float32 // of the logits; 0 means 1
	softCap float32 // the bound of the scaled logits; 0 means none
}

// model returns the model, with layers that use the file's tensors.
func (d decoder) model(k *keys) (*Model, error) {
	t := newTensors(k.file)
	rotations := map[rope]kernels.Matrix{}
	var layers []stage.Layer
	add := func(name, prefix string, input int, steps func(b *builder) program.Value) {
		if t.err != nil {
			return
		}
		b := &builder{program.New(name, input), t, prefix, d.width, rotations}
		out := steps(b)
		if t.err != nil {
			return
		}
		l, err := b.Layer(out)
		if err != nil {
			t.wrong("%w", err)
		}
		layers = append(layers, l)
	}

	vocab := t.rows("token_embd.weight", d.width)
	tokens := program.NewShared(t.matrix("token_embd.weight", vocab, d.width))
	add("embedding", "", 0, func(b *builder) program.Value { return d.embedding.steps(b, tokens) })
	for i, bl := range d.blocks {
		add(fmt.Sprintf("block %d", i), fmt.Sprintf("blk.%d.", i), d.width, bl.steps)
	}
	output := tokens
	if t.has("output.weight") {
		output = program.NewShared(t.matrix("output.weight", vocab, d.width))
	}
	add("output head", "", d.width, func(b *builder) program.Value { return d.head.steps(b, output) })

	t.rest()
	if size := k.size("vocab_size", vocab); size != vocab {
		k.wrong("key %svocab_size is %d, but the embedding has %d rows", k.prefix, size, vocab)
	}
	switch {
	case t.err != nil:
		return nil, t.err
	case k.err != nil:
		return nil, k.err
	}
	return &Model{Layers: layers, Vocab: vocab, Context: d.context, Width: d.width}, nil
}

func (e embedding) steps(b *builder, tokens *program.Shared) program.Value {
	if b.finds("position_embd.weight", e.positions) {
		b.unsupported("an embedding of positions (position_embd.weight)")
	}
	x := b.Embed(b.Shared(tokens))
	b.scale(x, e.scale)
	return b.norm(x, e.norm, 1)
}

func (bl block) steps(b *builder) program.Value {
	x := program.Input
	for _, r := range bl {
		y := normed{r.before, r.part}.steps(b, x)
		y = b.norm(y, r.after, 1)
		b.scale(y, r.scale)
		x = b.Add(x, y)
	}
	return x
}

func (s sum) steps(b *builder, x program.Value) program.Value {
	y := s[0].steps(b, x)
	for _, p := range s[1:] {
		y = b.Add(y, p.steps(b, x))
	}
	return y
}

func (p normed) steps(b *builder, x program.Value) program.Value {
	return p.part.steps(b, b.norm(x, p.norm, 1))
}

func (h head) steps(b *builder, output *program.Shared) program.Value {
	x := b.norm(b.Gather(), h.norm, 1)
	logits := b.MatMul(x, b.Shared(output))[0]
	b.addBias(logits, "output", h.bias)
	b.scale(logits, h.scale)
	if h.softCap != 0 {
		b.SoftCap(logits, h.softCap)
	}
	return logits
}
