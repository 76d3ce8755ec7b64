package generate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sort"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// Plan says which layers of a model are assigned to which device, and how many sequences
// fit into the memory that is left.
type Plan struct {
	*pipeline.Plan
	Context int // the length of the longest sequence, in tokens
	MaxSeqs int // how many sequences run at the same time
	Pages   int // the pages of kernels.PageTokens tokens for all sequences together, on each route

	// Limit says which memory is too small to give all sequences pages for their full
	// length. It is nil if there is enough memory, or if WithKVMemory is the limit.
	Limit *Limit

	model  *model.Model
	config config
	site   *pipeline.Site
}

// Limit says which stage has no memory for more pages.
type Limit struct {
	Stage  int    // the index of the stage
	Device string // the name of its device; if it has replicas, that of the one with the least memory
	Memory string // the name of the memory that is full; empty if the device's budget is the limit
}

// Sequences returns how many sequences of Context tokens have pages at the same time, at
// most MaxSeqs.
func (p *Plan) Sequences() int { return min(p.MaxSeqs, p.Pages/pagesFor(p.Context)) }

// expectedRows is the size of a batch for which the time of stages is estimated, if
// as many sequences run.
const expectedRows = 8

// fewestOutputs is how many rows of logits a batch has room for at least, so
// that the logits of a whole text don't come one a batch.
const fewestOutputs = 32

// NewPlan assigns a model's layers to devices without loading them. If the model doesn't
// fit, the error is a [*NoFitError], which wraps [packer.ErrNoFit]. If ctx ends, NewPlan
// returns ctx's error.
//
// Among the assignments that leave memory for enough pages, NewPlan chooses the fastest.
// Enough are pages for 512 tokens of each of the WithMaxSeqs sequences, and for the whole
// context of one of them; if no assignment leaves that much memory, about as many pages as
// possible. So more memory never leads to fewer of these pages. The memory that is left
// after that is used for further pages, until all sequences have pages for the whole
// context.
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
	if err := p.config.gather(p.site); err != nil {
		return nil, err
	}
	if err := p.place(ctx); err != nil {
		return nil, p.waysOut(ctx, err)
	}
	return p, nil
}

// place plans with the pages that there is memory for.
func (p *Plan) place(ctx context.Context) error {
	if p.config.kvMemory >= 0 {
		return p.fixed(ctx, p.config.kvMemory)
	}
	return p.largest(ctx)
}

// fits returns nil if place would succeed, and else its error.
func (p *Plan) fits(ctx context.Context) error {
	if p.config.kvMemory >= 0 {
		return p.fixed(ctx, p.config.kvMemory)
	}
	return p.site.Fits(ctx, p.state(pagesFor(p.Context)))
}

// pagesFor returns the pages that a sequence of so many tokens needs.
func pagesFor(tokens int) int { return (tokens + kernels.PageTokens - 1) / kernels.PageTokens }

// state returns what the stages keep if there are so many pages.
func (p *Plan) state(pages int) stage.Config {
	return stage.Config{
		MaxOutputs: max(p.MaxSeqs, fewestOutputs),
		MaxTables:  pagesFor(p.Context) * p.MaxSeqs,
		MaxTop:     mostTop(p.model.Vocab),
		Pages:      pages,
		KV:         p.config.kv,
		Host:       p.hostBytes(pages),
		Expect:     min(p.MaxSeqs, expectedRows),
	}
}

// What the engine keeps in the host's memory, in bytes.
const (
	hostPerPage     = 256      // the scheduler's record of a page, and the tokens in it
	hostPerSequence = 16 << 10 // buffers, and the stack of the caller's goroutine
	hostPerToken    = 8        // of a running sequence: its number, and its text
	hostPerLogit    = 16       // of one row for each thread that draws from one
)

// hostBytes returns what the engine needs of the host's memory for so many pages: the
// scheduler's records, and the tokens and texts of the requests.
func (p *Plan) hostBytes(pages int) int64 {
	sequence := hostPerSequence + hostPerToken*int64(p.Context)
	return hostPerPage*int64(pages) + sequence*int64(p.MaxSeqs) + hostPerLogit*int64(p.model.Vocab)*int64(runtime.GOMAXPROCS(0))
}

// with plans for a number of pages.
func (p *Plan) with(ctx context.Context, pages int) (err error) {
	p.Pages = pages
	p.Plan, err = p.site.Plan(ctx, p.state(pages))
	return err
}

// fixed gives sequences the pages that the memory holds.
func (p *Plan) fixed(ctx context.Context, memory int64) error {
	least := pagesFor(p.Context)
	if err := p.with(ctx, 1); err != nil {
		return err
	}
	for most := int64(least) * int64(p.MaxSeqs); ; {
		page := p.stateBytes() / int64(p.Pages)
		pages := min(most, memory/max(1, page))
		if pages < int64(least) {
			return fmt.Errorf("%w: key/value memory of %s holds %d tokens, a sequence has up to %d and needs %s",
				packer.ErrNoFit, device.FormatSize(memory), pages*kernels.PageTokens, p.Context, device.FormatSize(page*int64(least)))
		}
		if err := p.with(ctx, int(pages)); err != nil {
			return err
		}
		if p.stateBytes() <= memory {
			return nil
		}
		most = pages - 1 // other devices keep them now, where they take more
	}
}

// stateBytes returns the bytes of all pages in all stages.
func (p *Plan) stateBytes() (sum int64) {
	for _, s := range p.Stages {
		sum += s.State
	}
	return sum
}

// largest gives sequences as many pages as fit, at most what they all need at
// full length, at least what one needs.
func (p *Plan) largest(ctx context.Context) error {
	asked := p.asked()
	err := p.with(ctx, asked)
	if errors.Is(err, packer.ErrNoFit) {
		return p.most(ctx, asked)
	}
	if err != nil {
		return err
	}
	// The layers stay where they are: what is left there is for more pages.
	more, err := largestFit(p.full()-asked, func(more int) error { return p.Plan.Fits(ctx, p.state(asked+more)) })
	if err != nil {
		return err
	}
	return p.again(ctx, asked+more)
}

// most gives sequences the most pages for which the layers can be placed at all, of
// which fewer than limit fit.
func (p *Plan) most(ctx context.Context, limit int) error {
	least := pagesFor(p.Context)
	more, err := largestFit(limit-1-least, func(more int) error { return p.site.Fits(ctx, p.state(least+more)) })
	if err != nil {
		return err
	}
	pages := least + more
	if p.site.Chooses() {
		// The very last pages may have one way to place the layers, and a slow one,
		// such as all of them on one device. A few less leave a choice.
		pages = max(least, pages-pages/16)
	}
	if err := p.with(ctx, pages); err != nil {
		return err
	}
	return p.limited(ctx)
}

// full returns the pages that all sequences need at full length.
func (p *Plan) full() int { return pagesFor(p.Context) * p.MaxSeqs }

// usualTokens is how long sequences are taken to get, all but the longest of those
// that run at once.
const usualTokens = 512

// asked returns the pages that come before speed when the layers are placed: those
// of one sequence at full length, and of all others at the usual one. Where the
// context is no longer than that, they are those of all sequences at full length.
func (p *Plan) asked() int {
	return pagesFor(p.Context) + (p.MaxSeqs-1)*pagesFor(min(p.Context, usualTokens))
}

// largestFit returns the largest n from 0 to limit for which fits returns nil, which
// it does for every smaller one too; 0 if for none. It returns errors of other kinds
// than a lack of room.
func largestFit(limit int, fits func(n int) error) (n int, err error) {
	n = sort.Search(limit, func(i int) bool {
		failed := fits(i + 1)
		if failed != nil && err == nil && !errors.Is(failed, packer.ErrNoFit) {
			err = failed
		}
		return failed != nil
	})
	return n, err
}

// again plans for another number of pages, with the layers at the same places.
func (p *Plan) again(ctx context.Context, pages int) error {
	plan, err := p.Plan.With(ctx, p.state(pages))
	if err != nil {
		return err
	}
	p.Plan, p.Pages = plan, pages
	return p.limited(ctx)
}

// limited sets which stage has no room for more pages, unless all sequences have
// theirs.
func (p *Plan) limited(ctx context.Context) error {
	if p.Pages == p.full() {
		return nil
	}
	err := p.Plan.Fits(ctx, p.state(p.Pages+1))
	if err == nil { // where most has left some
		var more int
		more, err = largestFit(p.full()-p.Pages-1, func(more int) error { return p.Plan.Fits(ctx, p.state(p.Pages+more)) })
		if err != nil {
			return err
		}
		err = p.Plan.Fits(ctx, p.state(p.Pages+more+1))
	}
	var short *packer.NoFitError
	if !errors.As(err, &short) {
		return err
	}
	for i, s := range p.Stages {
		if s.From == short.Run.From {
			p.Limit = &Limit{Stage: i, Device: short.Device}
			if short.Memory != nil {
				p.Limit.Memory = short.Memory.Name
			}
		}
	}
	return nil
}
