package kernels

import (
	"encoding/binary"
	"fmt"

	"github.com/leat-dev/leat/device"
)

// PageTokens is how many positions a page of keys and values holds. It is also
// the block in which attention sums, so it is part of a result's bits.
const PageTokens = 32

// Header tells the layers what the rows of a batch are. It is built on the host
// by Append, one row at a time, and encoded in a fixed layout that is uploaded
// once a stage and read by the ops from device memory.
//
// The layout is little-endian 32-bit words: rows n, outputs m, table words p,
// and 5 words that are 0; then tokens [n]; positions [n]; tables [n], each the
// index of its row's first page in pages; outputs [m], the rows that want
// output, ascending; pages [p].
//
// A Header is reused: Reset keeps its memory.
type Header struct {
	Tokens    []int32
	Positions []int32
	Tables    []int32
	Outputs   []int32
	Pages     []int32
	words     []byte
}

// HeaderPrefix is the number of words before the tokens.
const HeaderPrefix = 8

// NewHeader returns a header that holds up to rows rows and pages table words
// without allocating again.
func NewHeader(rows, pages int) *Header {
	return &Header{
		Tokens:    make([]int32, 0, rows),
		Positions: make([]int32, 0, rows),
		Tables:    make([]int32, 0, rows),
		Outputs:   make([]int32, 0, rows),
		Pages:     make([]int32, 0, pages),
		words:     make([]byte, 0, HeaderBytes(rows, rows, pages)),
	}
}

// HeaderBytes returns the encoded size of a header.
func HeaderBytes(rows, outputs, pages int) int64 {
	return 4 * (HeaderPrefix + 3*int64(rows) + int64(outputs) + int64(pages))
}

// Reset empties the header.
func (h *Header) Reset() {
	h.Tokens, h.Positions, h.Tables = h.Tokens[:0], h.Positions[:0], h.Tables[:0]
	h.Outputs, h.Pages = h.Outputs[:0], h.Pages[:0]
}

// Table adds a sequence's page table, the numbers of its pages from position 0
// on, and returns where it starts, for Append.
func (h *Header) Table(pages []int32) int32 {
	start := int32(len(h.Pages))
	h.Pages = append(h.Pages, pages...)
	return start
}

// Append adds a row: a token at a position of the sequence whose table starts
// at table. output says that the row's result is wanted.
func (h *Header) Append(token, position, table int32, output bool) {
	if output {
		h.Outputs = append(h.Outputs, int32(len(h.Tokens)))
	}
	h.Tokens = append(h.Tokens, token)
	h.Positions = append(h.Positions, position)
	h.Tables = append(h.Tables, table)
}

// Encode returns the header's encoded form, valid until the next Encode.
func (h *Header) Encode() []byte {
	w := h.words[:0]
	for _, v := range [HeaderPrefix]int{len(h.Tokens), len(h.Outputs), len(h.Pages)} {
		w = binary.LittleEndian.AppendUint32(w, uint32(v))
	}
	for _, part := range [...][]int32{h.Tokens, h.Positions, h.Tables, h.Outputs, h.Pages} {
		for _, v := range part {
			w = binary.LittleEndian.AppendUint32(w, uint32(v))
		}
	}
	h.words = w
	return w
}

// Rows is an encoded header in a device's memory, with the counts that the host
// needs to shape its work.
type Rows struct {
	Buf     device.Buffer
	N       int // rows
	Outputs int // rows that want output
	Pages   int // words of page tables

	// Base is added to every page number of the header: where the batch's route
	// has its pages in caches that several routes share. Ops refuse a page that is
	// negative before, or beyond the cache after.
	Base int
}

// CacheSpec is the shape of one layer's keys and values.
type CacheSpec struct {
	Type    Type // F32, F16 or Q8_0
	Heads   int  // key/value heads
	HeadDim int  // elements a head; a multiple of 32 for Q8_0
	Pages   int  // pages of PageTokens positions
}

// Check says what is wrong with the spec, if anything.
func (s CacheSpec) Check() error {
	switch {
	case s.Type != F32 && s.Type != F16 && s.Type != Q8_0:
		return fmt.Errorf("a key/value cache of %v: it may be f32, f16 or q8_0", s.Type)
	case s.Heads <= 0 || s.HeadDim <= 0 || s.Pages <= 0:
		return fmt.Errorf("a key/value cache of %d heads of %d elements and %d pages", s.Heads, s.HeadDim, s.Pages)
	case s.Type == Q8_0 && s.HeadDim%32 != 0:
		return fmt.Errorf("a q8_0 key/value cache needs heads of a multiple of 32 elements, these have %d: use f16 or f32", s.HeadDim)
	}
	return nil
}

// Cache is the pages of one layer on a device, in a form of the device's own.
// Pages are numbered from 0; who uses which is the scheduler's business.
type Cache interface {
	Spec() CacheSpec
	Bytes() int64 // what it takes on the device, as CacheBytes said beforehand
	Free() error
}
