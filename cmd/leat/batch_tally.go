package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// tally counts what has been done. All fields but made are used only by the goroutine
// that writes, and after its end by the goroutine that started it.
type tally struct {
	lines, failed int   // that are written
	kept          int   // of the lines, by an earlier run
	last          int   // the number of the last of them
	tokens        int   // in them
	bytes, total  int64 // of the input; total is 0 where it isn't known
	seed          uint64
	next          string // how to go on with what is left, of a batch that was ended
	began         time.Time
	took          time.Duration
	made          atomic.Int64 // tokens, of lines that aren't written too
}

// add counts a line that has been written.
func (p *tally) add(t *task) {
	p.lines++
	p.last = t.number
	if t.kept {
		p.kept++
	}
	if t.failed {
		p.failed++
	} else {
		p.tokens += len(t.tokens)
	}
	p.bytes = t.end
}

// picture returns the progress line of a batch that runs.
func (p *tally) picture(filled func(share float64) string) string {
	made := int(p.made.Load())
	text := fmt.Sprintf("%s, %.1f tokens/s", counted(p.lines, "line"), perSecond(made, time.Since(p.began)))
	if p.total > 0 {
		share := min(1, float64(p.bytes)/float64(p.total))
		text = fmt.Sprintf("%s%2.0f%%, %s", filled(share), share*100, text)
	}
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	return text
}

// String returns a summary of all that was written.
func (p *tally) String() string {
	before := ""
	if p.kept > 0 {
		before = fmt.Sprintf("%d done before, ", p.kept)
	}
	return fmt.Sprintf("%s%s in %.1f s, %.1f tokens/s, seed %d",
		before, counted(p.tokens, "token"), p.took.Seconds(), perSecond(p.tokens, p.took), p.seed)
}

// batchDocument is what leat batch --json prints.
type batchDocument struct {
	Lines  int     `json:"lines"`
	Kept   int     `json:"kept"` // of the lines, from before --resume
	Failed int     `json:"failed"`
	Tokens int     `json:"tokens"`
	Speed  float64 `json:"tps"`
	Seed   uint64  `json:"seed"`
}

func (p *tally) document() batchDocument {
	return batchDocument{p.lines, p.kept, p.failed, p.tokens, decimals(perSecond(p.tokens, p.took), 1), p.seed}
}
