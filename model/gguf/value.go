package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a metadata value. Its values are the file's codes.
type Kind uint32

// The kinds of value.
const (
	Uint8   Kind = 0
	Int8    Kind = 1
	Uint16  Kind = 2
	Int16   Kind = 3
	Uint32  Kind = 4
	Int32   Kind = 5
	Float32 Kind = 6
	Bool    Kind = 7
	String  Kind = 8
	Array   Kind = 9
	Uint64  Kind = 10
	Int64   Kind = 11
	Float64 Kind = 12
)

var kinds = [...]struct {
	name string
	size uint64 // bytes; 0: of no fixed size
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Uint16: {"uint16", 2}, Int16: {"int16", 2},
	Uint32: {"uint32", 4}, Int32: {"int32", 4}, Uint64: {"uint64", 8}, Int64: {"int64", 8},
	Float32: {"float32", 4}, Float64: {"float64", 8}, Bool: {"bool", 1},
	String: {"string", 0}, Array: {"array", 0},
}

// String returns the kind's name in lower case, such as "uint32".
func (k Kind) String() string {
	if k < Kind(len(kinds)) {
		return kinds[k].name
	}
	return fmt.Sprintf("value type %d", uint32(k))
}

func (k Kind) size() uint64 {
	if k < Kind(len(kinds)) {
		return kinds[k].size
	}
	return 0
}

func (k Kind) integer() bool {
	return k <= Int32 || k == Uint64 || k == Int64
}

// Value is one value of a file's metadata, checked but not decoded.
type Value struct {
	kind, elem Kind
	n          uint64 // elements; 1 for what isn't an array
	in         *header
	at, size   int // of its bytes in the header
}

// raw returns the value's bytes: numbers one after another, a string without its
// length, an array's strings each with its length.
func (v Value) raw() []byte { return v.in.data[v.at:][:v.size] }

// Kind returns what the value is.
func (v Value) Kind() Kind { return v.kind }

// Elem returns what an array's elements are; of any other value its own kind.
func (v Value) Elem() Kind {
	if v.kind == Array {
		return v.elem
	}
	return v.kind
}

// Len returns how many elements an array has; it is 1 for any other value.
func (v Value) Len() int { return int(v.n) }

// TypeName returns the type in words: "uint32", "array of string".
func (v Value) TypeName() string {
	if v.kind == Array {
		return "array of " + v.elem.String()
	}
	return v.kind.String()
}

// All decodes the elements of an array one after another, or the one value of
// what isn't an array. Unsigned integers come as uint64, signed ones as int64,
// the rest as float32, float64, bool and string.
func (v Value) All() iter.Seq[any] {
	return func(yield func(any) bool) {
		for b := range v.elements() {
			if !yield(decode(v.Elem(), b)) {
				return
			}
		}
	}
}

// elements yields the bytes of each element, or those of the one value. The zero
// Value has none.
func (v Value) elements() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if v.n == 0 {
			return
		}
		raw := v.raw()
		if v.kind != Array {
			yield(raw)
			return
		}
		for len(raw) > 0 {
			var b []byte
			if b, raw = next(v.elem, raw); !yield(b) {
				return
			}
		}
	}
}

// Any returns the value in a form that encoding/json can write: a []any of at
// most limit elements for an array (all of them where limit is negative), else
// what All yields. Floats that JSON hasn't are strings: "NaN", "+Inf", "-Inf". A
// text of more than 1 MiB is cut there, and ends with "…".
func (v Value) Any(limit int) any {
	list := []any{}
	for b := range v.elements() {
		if len(list) == limit && v.kind == Array {
			break
		}
		if v.Elem() == String && len(b) > maxText {
			list = append(list, head(string(b[:maxText+1]), maxText)+"…")
		} else {
			list = append(list, finite(decode(v.Elem(), b)))
		}
	}
	switch {
	case v.kind == Array:
		return list
	case len(list) == 0:
		return nil
	}
	return list[0]
}

// String returns the value on one short line: strings quoted, and of what is
// long only the beginning.
func (v Value) String() string {
	const most = 6
	var s strings.Builder
	n := 0
	for b := range v.elements() {
		if n > 0 {
			s.WriteString(", ")
		}
		if n++; n > most {
			s.WriteString("…")
			break
		}
		if v.Elem() == String {
			s.WriteString(Quote(string(b[:min(len(b), maxQuote+1)])))
		} else {
			fmt.Fprint(&s, decode(v.Elem(), b))
		}
	}
	if v.kind == Array {
		return "[" + s.String() + "]"
	}
	return s.String()
}

func finite(x any) any {
	var f float64
	switch x := x.(type) {
	case float32:
		f = float64(x)
	case float64:
		f = x
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return x
}

// next splits the first element off an array's bytes, which were checked when
// the file was opened.
func next(elem Kind, raw []byte) (first, rest []byte) {
	n := elem.size()
	if elem == String {
		n, raw = binary.LittleEndian.Uint64(raw), raw[8:]
	}
	return raw[:n], raw[n:]
}

// one returns the value of what isn't an array, nil for an array and for the
// zero Value.
func (v Value) one() any {
	if v.kind == Array || v.n == 0 {
		return nil
	}
	return decode(v.kind, v.raw())
}

func decode(k Kind, b []byte) any {
	le := binary.LittleEndian
	switch k {
	case Uint8:
		return uint64(b[0])
	case Int8:
		return int64(int8(b[0]))
	case Uint16:
		return uint64(le.Uint16(b))
	case Int16:
		return int64(int16(le.Uint16(b)))
	case Uint32:
		return uint64(le.Uint32(b))
	case Int32:
		return int64(int32(le.Uint32(b)))
	case Uint64:
		return le.Uint64(b)
	case Int64:
		return int64(le.Uint64(b))
	case Float32:
		return math.Float32frombits(le.Uint32(b))
	case Float64:
		return math.Float64frombits(le.Uint64(b))
	case Bool:
		return b[0] == 1
	default:
		return string(b)
	}
}
