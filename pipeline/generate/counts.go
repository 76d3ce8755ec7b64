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

// Counts may be called at any time.
func (e *Engine) Counts() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.schedule.Counts()
	return Counts{
		Routes:    e.line.WorkingRoutes(),
		Running:   n.Running,
		Waiting:   n.Waiting + len(e.blocked),
		FreePages: n.FreePages,
		Pages:     n.Pages,
		Yields:    n.Preempted,
		Reused:    n.Reused,
		Moved:     n.Moved,
	}
}
