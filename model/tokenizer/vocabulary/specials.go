package vocabulary

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
	"strings"
)

// specials is an index that finds a vocabulary's special tokens in a text in a single pass, since
// some vocabularies have thousands of them.
type specials struct {
	ranked []int32    // ids, ordered by decreasing length of the text, then by increasing id
	sorted []special  // ordered by text
	first  [257]int32 // sorted[first[b]:first[b+1]] are the tokens that begin with byte b
}

// special is a special token in the index.
type special struct {
	text        string
	rank        int32 // the index in ranked
	within      int32 // the index in sorted of the longest other token that is a prefix of this one; -1 if none
	userDefined bool
}

// newSpecials indexes the control, unknown and user-defined tokens. Of several tokens with the
// same text that are all user-defined, or all not, it has only the first, since the others are
// never found.
func newSpecials(tokens []Token) specials {
	var s specials
	type class struct {
		text        string
		userDefined bool
	}
	seen := map[class]bool{}
	for i, t := range tokens {
		switch t.Kind {
		case Unknown, Control, UserDefined:
			if c := (class{t.Text, t.Kind == UserDefined}); t.Text != "" && !seen[c] {
				seen[c] = true
				s.ranked = append(s.ranked, int32(i))
			}
		}
	}
	slices.SortStableFunc(s.ranked, func(a, b int32) int {
		return cmp.Compare(len(tokens[b].Text), len(tokens[a].Text))
	})
	for rank, id := range s.ranked {
		s.sorted = append(s.sorted, special{tokens[id].Text, int32(rank), -1, tokens[id].Kind == UserDefined})
	}
	slices.SortFunc(s.sorted, func(a, b special) int {
		return cmp.Or(strings.Compare(a.text, b.text), cmp.Compare(b.rank, a.rank))
	})
	for i := 1; i < len(s.sorted); i++ {
		w := int32(i - 1)
		for w >= 0 && !strings.HasPrefix(s.sorted[i].text, s.sorted[w].text) {
			w = s.sorted[w].within
		}
		s.sorted[i].within = w
	}
	at := 0
	for b := range s.first {
		for at < len(s.sorted) && int(s.sorted[at].text[0]) < b {
			at++
		}
		s.first[b] = int32(at)
	}
	return s
}

// longest returns the rank of the longest token that is a prefix of text, or -1 if there is none.
// If userDefined is true, only user-defined tokens are considered.
func (s *specials) longest(text string, userDefined bool) (rank int32) {
	lo := int(s.first[text[0]])
	some := s.sorted[lo:s.first[int(text[0])+1]]
	// Every token that is a prefix of text is also a prefix of the last token in the order
	// that is not greater than text, or is that token.
	i := int32(lo + sort.Search(len(some), func(i int) bool { return some[i].text > text }) - 1)
	if i < int32(lo) {
		return -1
	}
	alike := 0
	for last := s.sorted[i].text; alike < min(len(last), len(text)) && last[alike] == text[alike]; {
		alike++
	}
	for ; i >= 0; i = s.sorted[i].within {
		if x := &s.sorted[i]; len(x.text) <= alike && (x.userDefined || !userDefined) {
			return x.rank
		}
	}
	return -1
}

// hit is an occurrence of a token in a text.
type hit struct {
	rank int32
	at   int // the index in the text
}

// hits is a heap of hits, ordered by decreasing length of the token, then by increasing id, and
// then from left to right.
type hits []hit

func (h hits) Len() int { return len(h) }
func (h hits) Less(i, k int) bool {
	return h[i].rank < h[k].rank || h[i].rank == h[k].rank && h[i].at < h[k].at
}
func (h hits) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *hits) Push(x any)   { *h = append(*h, x.(hit)) }
func (h *hits) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// in returns the special tokens at which a text is split, from left to right; they don't overlap.
// For each position of the text the heap has at most one token, the longest that is possible
// there. So the time depends on the lengths of the text and of the tokens found, but not on the
// number of tokens in the vocabulary.
func (s *specials) in(tokens []Token, text string, userDefined bool) []hit {
	var queue hits
	for at := range len(text) {
		if rank := s.longest(text[at:], userDefined); rank >= 0 {
			queue = append(queue, hit{rank, at})
		}
	}
	if queue == nil {
		return nil
	}
	heap.Init(&queue)
	taken := make([]bool, len(text))
	var found []hit
	for len(queue) > 0 {
		h := queue[0]
		size := len(tokens[s.ranked[h.rank]].Text)
		span := taken[h.at:][:size]
		// The tokens found before are at least as long, so if one overlaps the span, it
		// contains the span's first or last byte.
		if !span[0] && !span[size-1] {
			for i := range span {
				span[i] = true
			}
			found = append(found, h)
		} else if !span[0] {
			if free := slices.Index(span, true); free > 0 {
				if shorter := s.longest(text[h.at:][:free], userDefined); shorter >= 0 {
					queue[0].rank = shorter
					heap.Fix(&queue, 0)
					continue
				}
			}
		}
		heap.Pop(&queue)
	}
	slices.SortFunc(found, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	return found
}
