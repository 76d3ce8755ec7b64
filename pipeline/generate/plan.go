package generate

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// Plan is a model's placement, with the room it gives to sequences.
type Plan struct {
	*pipeline.Plan
	Context int // tokens in the longest sequence
	MaxSeqs int // sequences at once
	Pages   int // pages of kernels.PageTokens tokens, for all sequences

	model  *model.Model
	config config
}

// fewestOutputs is how many rows of logits a batch has room for at least, so
// that the logits of a whole text don't come one a batch.
const fewestOutputs = 32

// NewPlan places a model without loading it. A model that doesn't fit is an
// error that wraps packer.ErrNoFit.
func NewPlan(m *model.Model, options ...Option) (*Plan, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	p := &Plan{model: m, config: c, MaxSeqs: c.maxSeqs, Context: c.context}
	if p.Context == 0 {
		p.Context = min(m.Context, defaultContext)
	}
	if c.kvMemory >= 0 {
		err = p.fixed(c.kvMemory)
	} else {
		err = p.largest()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// pagesFor returns the pages that a sequence of so many tokens needs.
func pagesFor(tokens int) int { return (tokens + kernels.PageTokens - 1) / kernels.PageTokens }

// with plans for a number of pages.
func (p *Plan) with(pages int) error {
	perSequence := pagesFor(p.Context)
	state := stage.Config{
		MaxOutputs: max(p.MaxSeqs, fewestOutputs),
		MaxTables:  perSequence * p.MaxSeqs,
		Pages:      pages,
		KV:         p.config.kv,
		Expect:     min(p.MaxSeqs, 8),
	}
	options := append(slices.Clone(p.config.pipeline), pipeline.WithState(state))
	plan, err := pipeline.NewPlan(p.model.Layers, options...)
	if err != nil {
		return err
	}
	p.Plan, p.Pages = plan, pages
	return nil
}

// fixed gives sequences the pages that the memory holds.
func (p *Plan) fixed(memory int64) error {
	least := pagesFor(p.Context)
	if err := p.with(1); err != nil {
		return err
	}
	var page int64
	for _, s := range p.Stages {
		page += s.State
	}
	pages := memory / max(1, page)
	if pages < int64(least) {
		return fmt.Errorf("%w: key/value memory of %s holds %d tokens, a sequence has up to %d and needs %s",
			packer.ErrNoFit, device.FormatSize(memory), pages*kernels.PageTokens, p.Context, device.FormatSize(page*int64(least)))
	}
	if err := p.with(int(min(pages, int64(least)*int64(p.MaxSeqs)))); err != nil {
		return err
	}
	return p.Fits()
}

// largest gives sequences as many pages as fit, at most what they all need at
// full length, at least what one needs.
func (p *Plan) largest() error {
	least := pagesFor(p.Context)
	fits := func(pages int) error {
		if err := p.with(pages); err != nil {
			return err
		}
		return p.Fits()
	}
	if err := fits(least * p.MaxSeqs); !errors.Is(err, packer.ErrNoFit) {
		return err
	}
	if err := fits(least); err != nil {
		return err
	}
	more := sort.Search(least*(p.MaxSeqs-1), func(i int) bool { return fits(least+i+1) != nil })
	return p.with(least + more)
}
