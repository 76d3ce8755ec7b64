package schedule

import (
	"math/bits"
	"math/rand/v2"

	"github.com/leat-dev/leat/kernels"
)

// pages allocates the key/value pages of one route by their numbers, and is the
// prefix cache: a tree of the full pages whose contents are known by the tokens
// that lead to them. A sequence that begins with the same tokens uses those pages
// instead of computing them again. They stay when their sequences end, and are
// evicted when no other page is free, the least recently used first.
//
// A page that is in the tree is called a block. All memory is allocated by
// newPages.
type pages struct {
	blocks []block // by page number
	free   []int32 // pages that hold nothing
	unused int     // blocks without users

	buckets []int32 // hash table of the blocks: the first of each bucket
	seed    uint64  // of the hash, so that no caller can choose tokens that collide

	oldest, newest int32 // list of blocks without users and children, by time of use
}

// block says which tokens a page of the tree holds, and those that lead there.
type block struct {
	tokens   [kernels.PageTokens]int32
	parent   int32 // the page before; none for the first page of a text
	children int32 // pages that follow
	users    int32 // sequences that hold it; each holds the pages before, too
	next     int32 // in its bucket

	listed       bool // in the list from oldest to newest
	older, newer int32
}

// none is no page.
const none = -1

// pagesFor returns how many pages hold so many tokens.
func pagesFor(tokens int) int { return ceil(tokens, kernels.PageTokens) }

// ceil returns n divided by parts, rounded up.
func ceil(n, parts int) int { return (n + parts - 1) / parts }

func newPages(n int) *pages {
	p := &pages{
		blocks:  make([]block, n),
		free:    make([]int32, n),
		buckets: make([]int32, 1<<bits.Len(uint(n))),
		seed:    rand.Uint64(),
		oldest:  none,
		newest:  none,
	}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	for i := range p.buckets {
		p.buckets[i] = none
	}
	return p
}

// available returns how many pages could be allocated.
func (p *pages) available() int { return len(p.free) + p.unused }

// alloc returns a page, or false if all are in use. It may evict a block.
func (p *pages) alloc() (page int32, ok bool) {
	if len(p.free) == 0 {
		if p.oldest == none {
			return 0, false
		}
		p.evict(p.oldest)
	}
	last := len(p.free) - 1
	page, p.free = p.free[last], p.free[:last]
	return page, true
}

// release takes back an allocated page that is no block.
func (p *pages) release(page int32) { p.free = append(p.free, page) }

// hold finds the longest path of blocks that tokens begin with, counts a user for
// each, and appends them to table.
func (p *pages) hold(tokens, table []int32) []int32 {
	for parent := int32(none); len(tokens) >= kernels.PageTokens; tokens = tokens[kernels.PageTokens:] {
		b := p.find(parent, (*[kernels.PageTokens]int32)(tokens))
		if b == none {
			break
		}
		if p.blocks[b].users++; p.blocks[b].users == 1 {
			p.unused--
			p.unlist(b)
		}
		table = append(table, b)
		parent = b
	}
	return table
}

// match returns how many blocks hold would find, and how many of them have no
// users: to hold them leaves as many fewer available.
func (p *pages) match(tokens []int32) (n, unused int) {
	for parent := int32(none); len(tokens) >= kernels.PageTokens; tokens = tokens[kernels.PageTokens:] {
		b := p.find(parent, (*[kernels.PageTokens]int32)(tokens))
		if b == none {
			break
		}
		if p.blocks[b].users == 0 {
			unused++
		}
		n++
		parent = b
	}
	return n, unused
}

// publish makes an allocated page a block with one user, behind its parent, which
// that user holds. It returns false if another page holds the same tokens already;
// the page stays as it is then.
func (p *pages) publish(parent int32, tokens []int32, page int32) bool {
	key := (*[kernels.PageTokens]int32)(tokens)
	if p.find(parent, key) != none {
		return false
	}
	bucket := p.bucket(parent, key)
	p.blocks[page] = block{tokens: *key, parent: parent, users: 1, next: *bucket}
	*bucket = page
	if parent != none {
		p.blocks[parent].children++
		p.unlist(parent)
	}
	return true
}

// drop takes a user from a block. A path is dropped from its end.
func (p *pages) drop(page int32) {
	if p.blocks[page].users--; p.blocks[page].users == 0 {
		p.unused++
		if p.evictable(page) {
			p.list(page)
		}
	}
}

// evict makes the page of an evictable block free. If that makes its parent
// evictable it is the next in turn, so that a path goes as a whole before another
// is begun.
func (p *pages) evict(page int32) {
	b := &p.blocks[page]
	p.unlist(page)
	at := p.bucket(b.parent, &b.tokens)
	for *at != page {
		at = &p.blocks[*at].next
	}
	*at = b.next
	p.free = append(p.free, page)
	p.unused--
	if b.parent == none {
		return
	}
	parent := &p.blocks[b.parent]
	if parent.children--; !p.evictable(b.parent) {
		return
	}
	parent.listed, parent.older, parent.newer = true, none, p.oldest
	if p.oldest != none {
		p.blocks[p.oldest].older = b.parent
	} else {
		p.newest = b.parent
	}
	p.oldest = b.parent
}

func (p *pages) evictable(page int32) bool {
	b := &p.blocks[page]
	return b.users == 0 && b.children == 0
}

// list adds an evictable block to the list, as the one used last.
func (p *pages) list(page int32) {
	b := &p.blocks[page]
	b.listed, b.older, b.newer = true, p.newest, none
	if p.newest != none {
		p.blocks[p.newest].newer = page
	} else {
		p.oldest = page
	}
	p.newest = page
}

func (p *pages) unlist(page int32) {
	b := &p.blocks[page]
	if !b.listed {
		return
	}
	if b.older != none {
		p.blocks[b.older].newer = b.newer
	} else {
		p.oldest = b.newer
	}
	if b.newer != none {
		p.blocks[b.newer].older = b.older
	} else {
		p.newest = b.older
	}
	b.listed = false
}

// find returns the block of these tokens behind parent, or none.
func (p *pages) find(parent int32, tokens *[kernels.PageTokens]int32) int32 {
	at := *p.bucket(parent, tokens)
	for at != none && (p.blocks[at].parent != parent || p.blocks[at].tokens != *tokens) {
		at = p.blocks[at].next
	}
	return at
}

// bucket returns the first place of the bucket of these tokens behind parent.
func (p *pages) bucket(parent int32, tokens *[kernels.PageTokens]int32) *int32 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio
	h := p.seed + uint64(uint32(parent))*odd
	for i := 0; i < len(tokens); i += 2 {
		pair := uint64(uint32(tokens[i]))<<32 | uint64(uint32(tokens[i+1]))
		high, low := bits.Mul64(h^pair, odd)
		h = (high ^ low) + p.seed
	}
	return &p.buckets[h&uint64(len(p.buckets)-1)]
}
