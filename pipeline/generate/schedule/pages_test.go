package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// keep computes a text's pages, beyond those that are in the cache already.
func keep(t *testing.T, p *pages, tokens ...int32) (table []int32) {
	all := blocks(tokens...)
	table = p.hold(all, nil)
	for i := len(table); i < len(tokens); i++ {
		page, ok := p.alloc()
		require.True(t, ok)
		parent := int32(none)
		if i > 0 {
			parent = table[i-1]
		}
		require.True(t, p.publish(parent, all[i*kernels.PageTokens:], page))
		table = append(table, page)
	}
	return table
}

func dropAll(p *pages, table []int32) {
	for _, page := range slices.Backward(table) {
		p.drop(page)
	}
}

func TestPrefixesAreShared(t *testing.T) {
	p := newPages(10)
	first := keep(t, p, 1, 2, 3)
	second := p.hold(append(blocks(1, 2, 4), 9), nil)
	assert.Equal(t, first[:2], second)
	assert.Empty(t, p.hold(blocks(2), nil))
	assert.Empty(t, p.hold(blocks(1)[1:], nil), "a page that isn't full is never shared")
	assert.Equal(t, 7, p.available())

	dropAll(p, first)
	assert.Equal(t, 8, p.available(), "the last page can be had now, the others are in use")
	n, unused := p.match(blocks(1, 2, 3, 4))
	assert.Equal(t, []int{3, 1}, []int{n, unused})
	dropAll(p, second)
	assert.Equal(t, 10, p.available())
	again := p.hold(blocks(1, 2, 3), nil)
	assert.Equal(t, first, again, "blocks outlive their sequences")
	dropAll(p, again)

	page, _ := p.alloc()
	assert.False(t, p.publish(none, blocks(1), page), "the same tokens are there once")
}

func TestUnusedBlocksAreEvictedOldestFirst(t *testing.T) {
	p := newPages(4)
	dropAll(p, keep(t, p, 1, 2))
	dropAll(p, keep(t, p, 3))
	dropAll(p, p.hold(blocks(1, 2), nil)) // used again: now the newer one
	for range 2 {
		_, ok := p.alloc()
		require.True(t, ok)
	}
	assert.Empty(t, p.hold(blocks(3), nil))
	table := p.hold(blocks(1, 2), nil)
	assert.Len(t, table, 2)
	_, ok := p.alloc()
	assert.False(t, ok, "what is in use stays")
	dropAll(p, table)
	_, ok = p.alloc()
	require.True(t, ok)
	assert.Len(t, p.hold(blocks(1, 2), nil), 1, "a path goes from its end")
}

// Random use keeps every page in one place, and finds what a plain map of texts
// says is there.
func TestPagesAreNeverLost(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newPages(12)
		var held [][]int32
		var own []int32
		for range 300 {
			switch rng.IntN(5) {
			case 0, 1:
				var tokens []int32
				for range 1 + rng.IntN(4) {
					tokens = append(tokens, int32(rng.IntN(3)))
				}
				if p.available() >= len(tokens) {
					held = append(held, keep(t, p, tokens...))
				}
			case 2:
				if len(held) > 0 {
					i := rng.IntN(len(held))
					dropAll(p, held[i])
					held = slices.Delete(held, i, i+1)
				}
			case 3:
				if page, ok := p.alloc(); ok {
					own = append(own, page)
				} else {
					require.Zero(t, p.available())
				}
			case 4:
				if len(own) > 0 {
					p.release(own[0])
					own = own[1:]
				}
			}
			users := map[int32]int32{}
			for _, table := range held {
				for i, page := range table {
					users[page]++
					parent := int32(none)
					if i > 0 {
						parent = table[i-1]
					}
					require.Equal(t, page, p.find(parent, &p.blocks[page].tokens))
				}
			}
			for page, n := range users {
				require.Equal(t, n, p.blocks[page].users)
			}
			require.Equal(t, 12, p.available()+len(users)+len(own))
			for _, page := range own {
				require.NotContains(t, users, page)
				require.NotContains(t, p.free, page)
			}
		}
	}
}
