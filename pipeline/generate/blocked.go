package generate

// blocked is the requests beyond the backlog, first come, first served. It holds none
// that has ended, however many come and give up while the backlog is full.
type blocked struct {
	queue []*request // with those that have been removed, which are not marked as blocked
	n     int        // requests that are
}

// push adds a request at the end.
func (b *blocked) push(r *request) {
	r.blocked = true
	b.queue = append(b.queue, r)
	b.n++
}

// pop removes the first request and returns it, nil if there is none.
func (b *blocked) pop() *request {
	for len(b.queue) > 0 {
		r := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		if r.blocked {
			r.blocked = false
			b.n--
			return r
		}
	}
	b.queue = nil
	return nil
}

// remove removes a request if it is there. That takes O(1) on average.
func (b *blocked) remove(r *request) {
	if !r.blocked {
		return
	}
	r.blocked = false
	b.n--
	if len(b.queue) < 2*b.n+16 {
		return
	}
	kept := make([]*request, 0, b.n)
	for _, r := range b.queue {
		if r.blocked {
			kept = append(kept, r)
		}
	}
	b.queue = kept
}
