package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Encode returns the tokens of a prompt: BOS before and EOS after where the
// file asks for them (by default BOS only), and control tokens that stand in
// the text, such as "</s>", read as what they are.
func (t *Tokenizer) Encode(text string) []int32 {
	var out []int32
	if t.addBOS && t.bos != none {
		out = append(out, t.bos)
	}
	out = t.encode(out, text, false)
	if t.addEOS && t.eos != none {
		out = append(out, t.eos)
	}
	return out
}

// EncodePlain returns the tokens of a text in which control tokens are text
// like any other. No BOS or EOS is added. Tokens that a vocabulary calls
// user-defined have no meaning beyond their text, and are found here too.
//
// Decode gives the text back if the vocabulary has every byte and no
// user-defined tokens, but for ▁, which comes back as a space.
func (t *Tokenizer) EncodePlain(text string) []int32 {
	return t.encode(nil, text, true)
}

func (t *Tokenizer) encode(out []int32, text string, plain bool) []int32 {
	m := t.mergers.Get().(*merger)
	defer t.mergers.Put(m)
	first := true // of a text, or after a special token
	for _, part := range t.split(text, plain) {
		if part.id != none {
			out = append(out, part.id)
			first = true
			continue
		}
		m.load(part.text, t.spacePrefix && first)
		m.merge(t)
		out = m.emit(t, out)
		first = false
	}
	return out
}

// part is text to be merged, or one special token.
type part struct {
	text string
	id   int32 // none: text
}

// split finds special tokens, as llama.cpp does: the longest token first, all
// over the text, then the next in what is left.
func (t *Tokenizer) split(text string, plain bool) []part {
	if text == "" {
		return nil
	}
	parts := []part{{text, none}}
	for _, id := range t.special {
		k := &t.tokens[id]
		if plain && k.kind != userDefined || !strings.Contains(text, k.text) {
			continue
		}
		var next []part
		for _, p := range parts {
			for p.id == none {
				before, after, found := strings.Cut(p.text, k.text)
				if !found {
					break
				}
				if before != "" {
					next = append(next, part{before, none})
				}
				next = append(next, part{k.text, id})
				p.text = after
			}
			if p.text != "" {
				next = append(next, p)
			}
		}
		parts = next
	}
	return parts
}

// space is how the vocabulary spells a space.
const space = "▁"

// merger joins characters into pieces: again and again the pair of neighbours
// that makes the piece of the highest score, of equal ones the leftmost.
type merger struct {
	text    []byte
	symbols []symbol
	queue   queue
}

// symbol is a stretch of the text, in a list linked by indices; it is empty
// once it was merged into the one before it.
type symbol struct {
	start, len int
	prev, next int // -1: none
}

// load takes a text apart into characters. A byte that isn't UTF-8 is one.
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

func (m *merger) merge(t *Tokenizer) {
	for i := 1; i < len(m.symbols); i++ {
		m.propose(t, i-1, i)
	}
	for len(m.queue) > 0 {
		p := m.queue.pop()
		left, right := &m.symbols[p.left], &m.symbols[p.right]
		// One of the two may have been merged with another since.
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

// propose queues two neighbours if they make a piece.
func (m *merger) propose(t *Tokenizer, left, right int) {
	if left < 0 || right < 0 {
		return
	}
	start, size := m.symbols[left].start, m.symbols[left].len+m.symbols[right].len
	if size > t.longest {
		return
	}
	if id, ok := t.pieces[string(m.text[start:start+size])]; ok {
		m.queue.push(pair{left, right, size, t.tokens[id].score})
	}
}

// emit appends the pieces. What is no piece becomes the tokens of its bytes,
// or, where one of them is missing, the unknown token.
func (m *merger) emit(t *Tokenizer, out []int32) []int32 {
	for i := 0; i >= 0 && i < len(m.symbols); i = m.symbols[i].next {
		text := m.text[m.symbols[i].start:][:m.symbols[i].len]
		if id, ok := t.pieces[string(text)]; ok {
			out = append(out, id)
			continue
		}
		before := len(out)
		for _, b := range text {
			if t.bytes[b] == none {
				out = append(out[:before], t.unk)
				break
			}
			out = append(out, t.bytes[b])
		}
	}
	return out
}
