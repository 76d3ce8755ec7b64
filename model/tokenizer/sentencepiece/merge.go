package sentencepiece

import (
	"strings"
	"unicode/utf8"

	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// merger combines characters to pieces. Repeatedly, of all adjacent symbols that together are a
// piece, it merges the two whose piece has the highest score, and of equal scores the leftmost.
// This is the algorithm of SentencePiece's BPE model
// (https://github.com/google/sentencepiece).
type merger struct {
	text    []byte
	symbols []symbol
	queue   queue
}

// symbol is a part of the text, in a list that is linked by indices. len becomes 0 when the
// symbol is merged into the one before it.
type symbol struct {
	start, len int
	prev, next int // -1 if there is none
}

// load splits a text into characters, each of which becomes a symbol. So does each byte that is
// not valid UTF-8. Spaces are replaced by ▁; if prefix is true, another ▁ is put before the
// text.
func (m *merger) load(text string, prefix bool) {
	m.text, m.symbols, m.queue = m.text[:0], m.symbols[:0], m.queue[:0]
	if prefix {
		m.text = append(m.text, space...)
	}
	for rest, more := text, true; more; {
		var word string
		word, rest, more = strings.Cut(rest, " ")
		m.text = append(m.text, word...)
		if more {
			m.text = append(m.text, space...)
		}
	}
	for at := 0; at < len(m.text); {
		_, n := utf8.DecodeRune(m.text[at:])
		i := len(m.symbols)
		m.symbols = append(m.symbols, symbol{at, n, i - 1, i + 1})
		at += n
	}
	if n := len(m.symbols); n > 0 {
		m.symbols[n-1].next = -1
	}
}

// merge merges symbols until no two adjacent ones are a piece.
func (m *merger) merge(t *Tokenizer) {
	for i := 1; i < len(m.symbols); i++ {
		m.propose(t, i-1, i)
	}
	for len(m.queue) > 0 {
		p := m.queue.pop()
		left, right := &m.symbols[p.left], &m.symbols[p.right]
		// Skip the pair if one of the two was merged with another symbol meanwhile.
		if left.len == 0 || right.len == 0 || left.len+right.len != p.size {
			continue
		}
		left.len += right.len
		right.len = 0
		left.next = right.next
		if left.next >= 0 {
			m.symbols[left.next].prev = p.left
		}
		m.propose(t, left.prev, p.left)
		m.propose(t, p.left, left.next)
	}
}

// propose queues two adjacent symbols if they are a piece together. An index may be -1.
func (m *merger) propose(t *Tokenizer, left, right int) {
	if left < 0 || right < 0 {
		return
	}
	start, size := m.symbols[left].start, m.symbols[left].len+m.symbols[right].len
	if size > t.longest {
		return
	}
	if id, ok := t.pieces[string(m.text[start:start+size])]; ok {
		m.queue.push(pair{left, right, size, t.scores[id]})
	}
}

// emit appends the tokens of the symbols. A symbol that is not a piece becomes the tokens of its
// bytes or, if one of these bytes has no token, the unknown token.
func (m *merger) emit(t *Tokenizer, out []int32) []int32 {
	for i := 0; i >= 0 && i < len(m.symbols); i = m.symbols[i].next {
		text := m.text[m.symbols[i].start:][:m.symbols[i].len]
		if id, ok := t.pieces[string(text)]; ok {
			out = append(out, id)
			continue
		}
		before := len(out)
		for _, b := range text {
			if t.bytes[b] == vocabulary.None {
				unknown, _ := t.Unknown() // exists, as New has checked
				out = append(out[:before], unknown)
				break
			}
			out = append(out, t.bytes[b])
		}
	}
	return out
}
