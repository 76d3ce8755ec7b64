package text

import (
	"slices"
	"sort"
	"unicode/utf8"
)

// matcher finds stop texts in one pass, however many there are. It is the
// automaton of Aho and Corasick: a trie of the stop texts in which each node
// knows where to go on if the next byte doesn't. It doesn't change.
type matcher struct {
	nodes []node // by depth; the first is the root
}

// node stands for the beginning of a stop text: the longest one with which the
// text read so far ends.
type node struct {
	children, past int32 // nodes[children:past], ascending by their byte
	back           int32 // the node of the longest beginning with which this one ends
	depth          int32 // the length of the beginning
	stop           int32 // the length of the longest stop text with which it ends, 0 if none
	byte           byte  // the last of the beginning
}

// newMatcher returns a matcher of the stop texts that aren't empty and are UTF-8,
// or nil if there are none.
func newMatcher(stops []string) *matcher {
	stops = slices.Clone(stops)
	slices.Sort(stops)
	stops = slices.DeleteFunc(slices.Compact(stops), func(s string) bool {
		return s == "" || !utf8.ValidString(s)
	})
	if len(stops) == 0 {
		return nil
	}
	// The stop texts that go on from a node are neighbours in the sorted list.
	type todo struct{ node, from, to int32 }
	m := &matcher{nodes: []node{{}}}
	queue := []todo{{0, 0, int32(len(stops))}}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		depth := m.nodes[t.node].depth
		m.nodes[t.node].children = int32(len(m.nodes))
		for from := t.from; from < t.to; {
			if len(stops[from]) == int(depth) { // ends at this node
				from++
				continue
			}
			b, to := stops[from][depth], from+1
			for to < t.to && stops[to][depth] == b {
				to++
			}
			child := node{depth: depth + 1, byte: b}
			if depth > 0 {
				child.back = m.next(m.nodes[t.node].back, b)
			}
			child.stop = m.nodes[child.back].stop
			if len(stops[from]) == int(child.depth) {
				child.stop = child.depth
			}
			queue = append(queue, todo{int32(len(m.nodes)), from, to})
			m.nodes = append(m.nodes, child)
			from = to
		}
		m.nodes[t.node].past = int32(len(m.nodes))
	}
	return m
}

// next returns the node after one more byte.
func (m *matcher) next(at int32, b byte) int32 {
	for {
		n := &m.nodes[at]
		if i := n.children + int32(sort.Search(int(n.past-n.children), func(i int) bool {
			return m.nodes[n.children+int32(i)].byte >= b
		})); i < n.past && m.nodes[i].byte == b {
			return i
		}
		if at == 0 {
			return 0
		}
		at = n.back
	}
}
