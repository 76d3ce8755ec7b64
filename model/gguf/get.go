package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The methods below return a key's value as a Go type. If there is no such key, ok is false
// and there is no error. If the value has another type, the error names the file, the key and
// both types.

// Uint returns an integer of any width. It is an error if the integer is negative.
func (f *File) Uint(key string) (x uint64, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false, nil
	}
	switch n := v.one().(type) {
	case uint64:
		return n, true, nil
	case int64:
		if n >= 0 {
			return uint64(n), true, nil
		}
		return 0, false, fmt.Errorf("%s: key %s is %d, and must not be negative", f.name, Quote(key), n)
	}
	return 0, false, f.wrong(key, v, "an integer")
}

// Float returns a floating-point number of either width.
func (f *File) Float(key string) (x float64, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false, nil
	}
	switch n := v.one().(type) {
	case float32:
		return float64(n), true, nil
	case float64:
		return n, true, nil
	}
	return 0, false, f.wrong(key, v, "float32 or float64")
}

// Bool returns a bool.
func (f *File) Bool(key string) (x, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return false, false, nil
	}
	if b, isBool := v.one().(bool); isBool {
		return b, true, nil
	}
	return false, false, f.wrong(key, v, "bool")
}

// Int returns an integer of any width. It is an error if the integer doesn't fit in an int64.
func (f *File) Int(key string) (x int64, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false, nil
	}
	switch n := v.one().(type) {
	case int64:
		return n, true, nil
	case uint64:
		if n <= math.MaxInt64 {
			return int64(n), true, nil
		}
		return 0, false, fmt.Errorf("%s: key %s is %d, which doesn't fit in a signed 64-bit integer", f.name, Quote(key), n)
	}
	return 0, false, f.wrong(key, v, "an integer")
}

// String returns a string. It is an error if the string is longer than 1 MiB. The string need
// not be valid UTF-8.
func (f *File) String(key string) (x string, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return "", false, nil
	}
	if v.kind != String {
		return "", false, f.wrong(key, v, "string")
	}
	if v.size > maxText {
		return "", false, fmt.Errorf("%s: key %s is a string of %d bytes, more than the %d that Leat reads: the file is damaged", f.name, Quote(key), v.size, maxText)
	}
	return string(v.raw()), true, nil
}

// Strings returns an array of strings, which need not be valid UTF-8.
func (f *File) Strings(key string) (list []string, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return nil, false, nil
	}
	if v.kind != Array || v.elem != String {
		return nil, false, f.wrong(key, v, "array of string")
	}
	// Copy all bytes at once; the strings are substrings of the copy.
	raw := v.raw()
	text := string(raw)
	list = make([]string, v.n)
	pos := 0
	for i := range list {
		n := int(binary.LittleEndian.Uint64(raw[pos:]))
		pos += 8
		list[i] = text[pos : pos+n]
		pos += n
	}
	return list, true, nil
}

// Floats returns an array of float32.
func (f *File) Floats(key string) (list []float32, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return nil, false, nil
	}
	if v.kind != Array || v.elem != Float32 {
		return nil, false, f.wrong(key, v, "array of float32")
	}
	raw := v.raw()
	list = make([]float32, v.n)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list, true, nil
}

// Ints returns an array of integers of any width. It is an error if one of them doesn't fit in
// an int32.
func (f *File) Ints(key string) (list []int32, ok bool, err error) {
	v, ok := f.Value(key)
	if !ok {
		return nil, false, nil
	}
	if v.kind != Array || !v.elem.integer() {
		return nil, false, f.wrong(key, v, "array of integers")
	}
	list = make([]int32, 0, v.n)
	for x := range v.All() {
		n, isSigned := x.(int64)
		if u, isUnsigned := x.(uint64); isUnsigned && u <= math.MaxInt32 {
			n, isSigned = int64(u), true
		}
		if !isSigned || n < math.MinInt32 || n > math.MaxInt32 {
			return nil, false, fmt.Errorf("%s: key %s: element %d is %v, which doesn't fit in a signed 32-bit integer", f.name, Quote(key), len(list), x)
		}
		list = append(list, int32(n))
	}
	return list, true, nil
}

// wrong returns the error for a value of another type than the caller wants.
func (f *File) wrong(key string, v Value, want string) error {
	return fmt.Errorf("%s: key %s is of type %s, not %s", f.name, Quote(key), v.TypeName(), want)
}
