package generate

// Counts is what the engine has to do, and what it has done so far.
type Counts struct {
	Routes    int // of which how many work
	Running   int // requests that are under way
	Waiting   int // requests that wait for pages or a place
	FreePages int // pages that no request uses; some hold beginnings that may be used again
	Pages     int // in all
	Yields    int // how often a request gave up its pages to another, to be computed again
	Reused    int // tokens of prompts that were not computed, since their pages were there
	Moved     int // requests that went to another route because theirs failed
}

// Counts may be called at any time. After Close it is all zero.
func (e *Engine) Counts() Counts {
	answer := make(chan Counts, 1)
	select {
	case e.questions <- answer:
		return <-answer
	case <-e.ended:
		return Counts{}
	}
}

func (c *scheduler) counts() Counts {
	n := Counts{
		Routes:  c.up(),
		Running: c.running,
		Waiting: len(c.waiting),
		Yields:  c.yields,
		Reused:  c.reused,
		Moved:   c.moved,
	}
	for _, l := range c.lanes {
		n.FreePages += l.pages.available()
		n.Pages += l.pages.all
	}
	return n
}
