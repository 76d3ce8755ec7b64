package generate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

// text is n blocks of tokens, each block of one token.
func text(tokens ...int32) (all []int32) {
	for _, t := range tokens {
		all = append(all, slices.Repeat([]int32{t}, kernels.PageTokens)...)
	}
	return all
}

// keep computes a text's blocks, beyond those that are shared already.
func keep(t *testing.T, p *pages, tokens ...int32) (path []*block) {
	all := text(tokens...)
	path = p.find(all)
	for i := len(path); i < len(tokens); i++ {
		page, ok := p.take()
		require.True(t, ok)
		var parent *block
		if i > 0 {
			parent = path[i-1]
		}
		b := p.share(parent, all[i*kernels.PageTokens:], page)
		require.NotNil(t, b)
		path = append(path, b)
	}
	return path
}

func leave(p *pages, path []*block) {
	for _, b := range slices.Backward(path) {
		p.leave(b)
	}
}

func numbers(path []*block) (pages []int32) {
	for _, b := range path {
		pages = append(pages, b.page)
	}
	return pages
}

func TestPrefixesAreShared(t *testing.T) {
	p := newPages(10)
	first := keep(t, p, 1, 2, 3)
	second := p.find(append(text(1, 2, 4), 9))
	assert.Equal(t, numbers(first[:2]), numbers(second))
	assert.Empty(t, p.find(text(2)))
	assert.Empty(t, p.find(text(1)[1:]), "a block that isn't full is never shared")
	assert.Equal(t, 7, p.available())

	leave(p, first)
	assert.Equal(t, 8, p.available(), "the last block can be had now, the others are in use")
	leave(p, second)
	assert.Equal(t, 10, p.available())
	again := p.find(text(1, 2, 3))
	assert.Equal(t, numbers(first), numbers(again), "blocks outlive their sequences")
	leave(p, again)

	page, _ := p.take()
	assert.Nil(t, p.share(nil, text(1), page), "the same tokens are shared once")
}

func TestUnusedBlocksGoOldestFirst(t *testing.T) {
	p := newPages(4)
	leave(p, keep(t, p, 1, 2))
	leave(p, keep(t, p, 3))
	leave(p, p.find(text(1, 2))) // used again: now the newer one
	for range 2 {
		_, ok := p.take()
		require.True(t, ok)
	}
	assert.Empty(t, p.find(text(3)))
	path := p.find(text(1, 2))
	assert.Len(t, path, 2)
	_, ok := p.take()
	assert.False(t, ok, "what is in use stays")
	leave(p, path)
	_, ok = p.take()
	require.True(t, ok)
	assert.Len(t, p.find(text(1, 2)), 1, "a path goes from its end")
}

// Random use keeps every page in one place: free, held, or kept.
func TestPagesAreNeverLost(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newPages(12)
		var held [][]*block
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
					leave(p, held[i])
					held = slices.Delete(held, i, i+1)
				}
			case 3:
				if page, ok := p.take(); ok {
					own = append(own, page)
				} else {
					require.Zero(t, p.available())
				}
			case 4:
				if len(own) > 0 {
					p.give(own[0])
					own = own[1:]
				}
			}
			inUse := map[int32]bool{}
			for _, path := range held {
				for _, b := range path {
					inUse[b.page] = true
				}
			}
			require.Equal(t, 12, p.available()+len(inUse)+len(own))
			for _, page := range own {
				require.False(t, inUse[page])
			}
		}
	}
}
