package sentencepiece

// queue is a binary heap of pairs with the next pair to merge at the root. It doesn't use
// container/heap, which would allocate for each pair.
type queue []pair

// pair is two adjacent symbols that are a piece together.
type pair struct {
	left, right int     // the indices of the symbols
	size        int     // the bytes of both when they were queued
	score       float32 // of the piece
}

func (p pair) before(q pair) bool {
	return p.score > q.score || p.score == q.score && p.left < q.left
}

func (q *queue) push(p pair) {
	*q = append(*q, p)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue) pop() pair {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if down >= len(h) || !h[down].before(h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*q = h
	return first
}
