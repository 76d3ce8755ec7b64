package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a metadata value. Its values are those of the GGUF format.
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
	size uint64 // in bytes; 0 if it is not fixed
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

// size returns the size in bytes of a value, or 0 if it is not fixed or the kind is unknown.
func (k Kind) size() uint64 {
	if k < Kind(len(kinds)) {
		return kinds[k].size
	}
	return 0
}

// integer reports whether the kind is an integer type.
func (k Kind) integer() bool {
	return k <= Int32 || k == Uint64 || k == Int64
}

// Value is a value of a file's metadata. It is checked, and decoded on demand.
type Value struct {
	kind, elem Kind
	n          uint64 // the number of elements; 1 if it is not an array
	in         *header
	at, size   int // the position and size of its bytes in the header
}

// raw returns the value's bytes: those of consecutive numbers, of a string without its length,
// or of an array's strings, each with its length.
func (v Value) raw() []byte { return v.in.data[v.at:][:v.size] }

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return v.kind }

// Elem returns the kind of an array's elements, or that of any other value itself.
func (v Value) Elem() Kind {
	if v.kind == Array {
		return v.elem
	}
	return v.kind
}

// Len returns the number of an array's elements, or 1 for any other value.
func (v Value) Len() int { return int(v.n) }

// TypeName returns the name of the value's type: "uint32", "array of string".
func (v Value) TypeName() string {
	if v.kind == Array {
		return "array of " + v.elem.String()
	}
	return v.kind.String()
}

// All returns a sequence of an array's elements, or of the value itself if it is not an array.
// Unsigned integers are uint64 values, signed integers are int64 values, and all others are
// float32, float64, bool or string values.
func (v Value) All() iter.Seq[any] {
	return func(yield func(any) bool) {
		for b := range v.elements() {
			if !yield(decode(v.Elem(), b)) {
				return
			}
		}
	}
}

// elements returns a sequence of the bytes of each element, or those of the value itself if it
// is not an array. It is empty for the zero Value.
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
			if b, raw = split(v.elem, raw); !yield(b) {
				return
			}
		}
	}
}

// Any returns the value in a form that encoding/json can encode. An array is a []any of at most
// limit elements, or of all elements if limit is negative; any other value, and each element,
// is as in All. Floating-point numbers that JSON doesn't have are the strings "NaN", "+Inf" and
// "-Inf". A string of more than 1 MiB is shortened to that length, and ends with "…".
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

// String returns the value on one short line. Strings are quoted; long strings and arrays are
// shortened.
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

// finite returns x, or its text if it is a floating-point number that is not finite.
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

// split returns the bytes of the first element of an array's bytes, and those after it. The
// bytes were checked when the file was opened.
func split(elem Kind, raw []byte) (first, rest []byte) {
	n := elem.size()
	if elem == String {
		n, raw = binary.LittleEndian.Uint64(raw), raw[8:]
	}
	return raw[:n], raw[n:]
}

// one returns the decoded value, or nil for an array and for the zero Value.
func (v Value) one() any {
	if v.kind == Array || v.n == 0 {
		return nil
	}
	return decode(v.kind, v.raw())
}

// decode returns the value of kind k, which is not Array, that has the bytes b.
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
