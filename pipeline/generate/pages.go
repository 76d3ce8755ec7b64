package generate

import "github.com/leat-dev/leat/kernels"

// pages hands out the numbers of key/value pages. Every stage keeps its own
// layers' pages under these numbers.
//
// A page that is full is kept when its sequence ends, under the tokens that lead
// to it: a sequence that begins with the same tokens uses it instead of computing
// it again. Pages that nobody uses are given away when others run out, those not
// used for the longest time first.
type pages struct {
	all    int
	free   []int32
	root   block
	oldest *block // of the kept blocks that nobody uses and that lead to no other: a list by time of use
	newest *block
	kept   int // blocks that nobody uses
}

// block is a full page in the tree of those that can be shared: its path from
// the root is the tokens that lead to it.
type block struct {
	page     int32
	tokens   blockTokens
	parent   *block
	children map[blockTokens]*block
	users    int // sequences that hold it; each holds its parents too

	older, newer *block // in the list of unused leaves
	listed       bool
}

type blockTokens [kernels.PageTokens]int32

func newPages(n int) *pages {
	p := &pages{all: n, free: make([]int32, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	return p
}

// available is how many pages could be taken.
func (p *pages) available() int { return len(p.free) + p.kept }

// take returns a page, or ok false where all are in use.
func (p *pages) take() (page int32, ok bool) {
	if len(p.free) == 0 {
		if p.oldest == nil {
			return 0, false
		}
		p.forget(p.oldest)
	}
	last := len(p.free) - 1
	page, p.free = p.free[last], p.free[:last]
	return page, true
}

// give takes back a page that isn't shared.
func (p *pages) give(page int32) { p.free = append(p.free, page) }

// find returns the longest path of shared blocks that tokens begin with, and
// holds them for the caller.
func (p *pages) find(tokens []int32) (path []*block) {
	at := &p.root
	for len(tokens) >= kernels.PageTokens {
		next := at.children[blockTokens(tokens)]
		if next == nil {
			break
		}
		p.hold(next)
		path = append(path, next)
		at, tokens = next, tokens[kernels.PageTokens:]
	}
	return path
}

// reach returns how many shared blocks tokens begin with, and how many of them
// nobody uses, so that to hold them makes as many fewer available. It holds none.
func (p *pages) reach(tokens []int32) (n, unused int) {
	at := &p.root
	for len(tokens) >= kernels.PageTokens {
		if at = at.children[blockTokens(tokens)]; at == nil {
			break
		}
		if at.users == 0 {
			unused++
		}
		n, tokens = n+1, tokens[kernels.PageTokens:]
	}
	return n, unused
}

// share puts a full page into the tree, behind its parent (nil: at the root),
// and holds it for the caller. Nil: another page of the same tokens is there
// already, and the page stays the caller's own.
func (p *pages) share(parent *block, tokens []int32, page int32) *block {
	if parent == nil {
		parent = &p.root
	}
	key := blockTokens(tokens)
	if parent.children[key] != nil {
		return nil
	}
	b := &block{page: page, tokens: key, parent: parent, users: 1}
	if parent.children == nil {
		parent.children = map[blockTokens]*block{}
	}
	parent.children[key] = b
	p.unlist(parent)
	return b
}

// hold counts a user of b, whose parents the caller holds.
func (p *pages) hold(b *block) {
	if b.users++; b.users == 1 {
		p.kept--
		p.unlist(b)
	}
}

// leave gives up a block. A path is left from its end.
func (p *pages) leave(b *block) {
	if b.users--; b.users == 0 {
		p.kept++
		p.list(b)
	}
}

// forget takes an unused leaf out of the tree and frees its page.
func (p *pages) forget(b *block) {
	p.unlist(b)
	delete(b.parent.children, b.tokens)
	p.free = append(p.free, b.page)
	p.kept--
	if parent := b.parent; p.unusedLeaf(parent) {
		// It goes next: a path is forgotten as a whole before another is begun.
		parent.listed, parent.newer = true, p.oldest
		if p.oldest != nil {
			p.oldest.older = parent
		} else {
			p.newest = parent
		}
		p.oldest = parent
	}
}

func (p *pages) unusedLeaf(b *block) bool {
	return b != &p.root && b.users == 0 && len(b.children) == 0 && !b.listed
}

// list adds b to the unused leaves, as the one used last, if it is one.
func (p *pages) list(b *block) {
	if !p.unusedLeaf(b) {
		return
	}
	b.listed, b.older = true, p.newest
	if p.newest != nil {
		p.newest.newer = b
	} else {
		p.oldest = b
	}
	p.newest = b
}

func (p *pages) unlist(b *block) {
	if !b.listed {
		return
	}
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		p.oldest = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		p.newest = b.older
	}
	b.listed, b.older, b.newer = false, nil, nil
}
