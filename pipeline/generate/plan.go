package generate

import (
	"context"
	"errors"
	"fmt"
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
	site   *pipeline.Site
}

// fewestOutputs is how many rows of logits a batch has room for at least, so
// that the logits of a whole text don't come one a batch.
const fewestOutputs = 32

// NewPlan places a model without loading it. A model that doesn't fit is a *NoFit,
// which wraps packer.ErrNoFit.
func NewPlan(ctx context.Context, m *model.Model, options ...Option) (*Plan, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	p := &Plan{model: m, config: c, MaxSeqs: c.maxSeqs, Context: c.context}
	if p.Context == 0 {
		p.Context = min(m.Context, defaultContext)
	}
	if p.site, err = pipeline.Survey(ctx, m.Layers, c.pipeline...); err != nil {
		return nil, err
	}
	if err := p.place(); err != nil {
		return nil, p.waysOut(err)
	}
	return p, nil
}

// place plans with the pages that there is memory for.
func (p *Plan) place() error {
	if p.config.kvMemory >= 0 {
		return p.fixed(p.config.kvMemory)
	}
	return p.largest()
}

// least plans with no more pages than one sequence needs, unless the memory for
// them is given.
func (p *Plan) least() error {
	if p.config.kvMemory >= 0 {
		return p.fixed(p.config.kvMemory)
	}
	return p.with(pagesFor(p.Context))
}

// pagesFor returns the pages that a sequence of so many tokens needs.
func pagesFor(tokens int) int { return (tokens + kernels.PageTokens - 1) / kernels.PageTokens }

// with plans for a number of pages. The first call says where the layers go;
// what is left then is for pages.
func (p *Plan) with(pages int) error {
	perSequence := pagesFor(p.Context)
	state := stage.Config{
		MaxOutputs: max(p.MaxSeqs, fewestOutputs),
		MaxTables:  perSequence * p.MaxSeqs,
		MaxTop:     mostTop(p.model.Vocab),
		Pages:      pages,
		KV:         p.config.kv,
		Expect:     min(p.MaxSeqs, 8),
	}
	plan, err := p.Plan, error(nil)
	if plan == nil {
		plan, err = p.site.Plan(state)
	} else {
		plan, err = plan.With(state)
	}
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
	return p.with(int(min(pages, int64(least)*int64(p.MaxSeqs))))
}

// largest gives sequences as many pages as fit, at most what they all need at
// full length, at least what one needs.
func (p *Plan) largest() error {
	least := pagesFor(p.Context)
	if err := p.with(least); err != nil {
		return err
	}
	if err := p.with(least * p.MaxSeqs); !errors.Is(err, packer.ErrNoFit) {
		return err
	}
	more := sort.Search(least*(p.MaxSeqs-1), func(i int) bool { return p.with(least+i+1) != nil })
	return p.with(least + more)
}
