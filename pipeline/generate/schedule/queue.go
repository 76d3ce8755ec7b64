package schedule

// heap is a priority queue of sequences, each of which knows its place in it, so
// that any of them is removed in O(log n).
type heap struct {
	before func(a, b *Sequence) bool
	place  int // of its positions in Sequence.places
	items  []*Sequence
}

// The heaps that a sequence may be in at once, as indices of Sequence.places.
const (
	inWaiting = iota // Scheduler.waiting
	inRunning        // route.running
	inChunks         // route.chunks
	inShort          // route.short
	heaps
)

func (h *heap) len() int { return len(h.items) }

// first returns the sequence that goes before all others, nil if there is none.
func (h *heap) first() *Sequence {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

// has says whether s is in the heap.
func (h *heap) has(s *Sequence) bool { return s.places[h.place] > 0 }

// push adds s, or moves it to where it belongs if it is there already.
func (h *heap) push(s *Sequence) {
	i := s.places[h.place] - 1
	if i < 0 {
		i = len(h.items)
		h.items = append(h.items, s)
		s.places[h.place] = i + 1
	}
	if !h.up(i) {
		h.down(i)
	}
}

// remove takes s out if it is in the heap.
func (h *heap) remove(s *Sequence) {
	i := s.places[h.place] - 1
	if i < 0 {
		return
	}
	s.places[h.place] = 0
	last := len(h.items) - 1
	moved := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	if i < last {
		h.set(i, moved)
		if !h.up(i) {
			h.down(i)
		}
	}
}

func (h *heap) set(i int, s *Sequence) {
	h.items[i] = s
	s.places[h.place] = i + 1
}

// up moves the item at i towards the first as far as it belongs, and says whether
// it moved.
func (h *heap) up(i int) bool {
	s, from := h.items[i], i
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(s, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, s)
	return i < from
}

func (h *heap) down(i int) {
	s := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if other := child + 1; other < len(h.items) && h.before(h.items[other], h.items[child]) {
			child = other
		}
		if !h.before(h.items[child], s) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, s)
}

// list is a linked list of sequences. A sequence is in one list at most.
type list struct {
	first, last *Sequence
	n           int
}

// push adds s at the end.
func (l *list) push(s *Sequence) {
	s.list, s.prev, s.next = l, l.last, nil
	if l.last != nil {
		l.last.next = s
	} else {
		l.first = s
	}
	l.last = s
	l.n++
}

// pushFront adds s at the beginning.
func (l *list) pushFront(s *Sequence) {
	s.list, s.prev, s.next = l, nil, l.first
	if l.first != nil {
		l.first.prev = s
	} else {
		l.last = s
	}
	l.first = s
	l.n++
}

// unlink takes s out of its list, if it is in one.
func (s *Sequence) unlink() {
	l := s.list
	if l == nil {
		return
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.last = s.prev
	}
	l.n--
	s.list, s.prev, s.next = nil, nil, nil
}
