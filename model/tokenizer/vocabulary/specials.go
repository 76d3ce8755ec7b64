package vocabulary

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// specials finds out which of a vocabulary's special tokens stand in a text, in
// one pass over it: some vocabularies have thousands.
type specials struct {
	ranked []int32    // ids, the longest text first, then the lower id
	sorted []special  // by text
	first  [257]int32 // sorted[first[b]:first[b+1]] begin with byte b
}

type special struct {
	text string
	rank int32 // in ranked
}

// newSpecials indexes the tokens that are read whole in a text. Of tokens of the
// same text, and both or neither user-defined, it has the first one alone: the
// others are never found.
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
		s.sorted = append(s.sorted, special{tokens[id].Text, int32(rank)})
	}
	slices.SortFunc(s.sorted, func(a, b special) int { return strings.Compare(a.text, b.text) })
	at := 0
	for b := range s.first {
		for at < len(s.sorted) && int(s.sorted[at].text[0]) < b {
			at++
		}
		s.first[b] = int32(at)
	}
	return s
}

// deepest is how many bytes of a token are compared. It bounds the cost of a
// byte of text; longer tokens that begin alike are all assumed to be there.
const deepest = 64

// in returns the tokens that may stand in the text, in the order of ranked. It
// leaves none out that does.
func (s *specials) in(text string) []int32 {
	var found []bool      // by rank; allocated for the first
	var counts [256]int32 // of those found, by their first byte
	for i := range len(text) {
		lo, hi := s.first[text[i]], s.first[int(text[i])+1]
		if counts[text[i]] == hi-lo {
			continue
		}
		for depth := 1; lo < hi; depth++ {
			if depth == deepest && found != nil && found[s.sorted[hi-1].rank] {
				break // all of these have been found before
			}
			for lo < hi && (len(s.sorted[lo].text) == depth || depth == deepest) {
				if found == nil {
					found = make([]bool, len(s.ranked))
				}
				if rank := s.sorted[lo].rank; !found[rank] {
					found[rank] = true
					counts[text[i]]++
				}
				lo++
			}
			if lo == hi || i+depth == len(text) {
				break
			}
			lo, hi = s.narrow(lo, hi, depth, text[i+depth])
		}
	}
	var ids []int32
	for rank, is := range found {
		if is {
			ids = append(ids, s.ranked[rank])
		}
	}
	return ids
}

// narrow returns which of sorted[lo:hi], all longer than depth and alike up to
// there, go on with a byte.
func (s *specials) narrow(lo, hi int32, depth int, b byte) (int32, int32) {
	if hi-lo == 1 {
		if s.sorted[lo].text[depth] != b {
			return lo, lo
		}
		return lo, hi
	}
	some := s.sorted[lo:hi]
	from := sort.Search(len(some), func(i int) bool { return some[i].text[depth] >= b })
	to := from + sort.Search(len(some)-from, func(i int) bool { return some[from+i].text[depth] > b })
	return lo + int32(from), lo + int32(to)
}
