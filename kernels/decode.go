package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Decode replaces the header with the one that Encode wrote. Any data is accepted:
// what is not a whole header is an error, after which the header must be reset. It
// checks that the counts agree with the size of data before it allocates, that
// outputs are rows in ascending order, that no position is negative, and that each
// row's table lies within the pages. Tokens and page numbers are left to the ops,
// which know the limits. Nothing refers to data afterwards.
func (h *Header) Decode(data []byte) error {
	if len(data) < 4*HeaderPrefix {
		return fmt.Errorf("a header of %d bytes: it has %d at least", len(data), 4*HeaderPrefix)
	}
	word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(data[4*i:])) }
	n, m, p := word(0), word(1), word(2)
	if 4*(HeaderPrefix+3*n+m+p) != uint64(len(data)) { // no overflow: each is below 2³²
		return fmt.Errorf("a header of %d bytes for %d rows, %d outputs and %d words of page tables", len(data), n, m, p)
	}
	for i := 3; i < HeaderPrefix; i++ {
		if word(i) != 0 {
			return fmt.Errorf("word %d of a header is %d: it must be 0", i, word(i))
		}
	}
	at := HeaderPrefix
	for _, part := range []struct {
		to *[]int32
		n  uint64
	}{{&h.Tokens, n}, {&h.Positions, n}, {&h.Tables, n}, {&h.Outputs, m}, {&h.Pages, p}} {
		values := (*part.to)[:0]
		for range part.n {
			values = append(values, int32(word(at)))
			at++
		}
		*part.to = values
	}
	return h.check()
}

// check says what is inconsistent in a header, if anything.
func (h *Header) check() error {
	last := int32(-1)
	for _, row := range h.Outputs {
		if row <= last || int(row) >= len(h.Tokens) {
			return fmt.Errorf("row %d of %d wants output, after row %d", row, len(h.Tokens), last)
		}
		last = row
	}
	for row, table := range h.Tables {
		position := h.Positions[row]
		if position < 0 || table < 0 {
			return fmt.Errorf("row %d is at position %d, its page table at %d", row, position, table)
		}
		if len(h.Pages) == 0 && table == 0 {
			continue // layers without state have no pages
		}
		if int(table)+int(position)/PageTokens >= len(h.Pages) {
			return errors.New("the page table of a row ends before the row's position")
		}
	}
	return nil
}
