// Package gguftest makes GGUF files in memory for tests: small working models ([Llama]), and
// files that are wrong in one particular way ([Build] with [Raw] values, [File] with wrong
// counts). It is for tests only, and panics if its arguments are wrong.
package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/model/gguf"
)

// KV is a key and its value, which is a number of a sized type, a bool, a string, a slice of one
// of these types, or a Raw.
type KV struct {
	Key   string
	Value any
}

// Raw is a value that is written to the file unchanged, whether it is valid or not: the code of
// its type, followed by bytes.
type Raw struct {
	Kind  gguf.Kind
	Bytes []byte
}

// Tensor is one tensor.
type Tensor struct {
	Name   string
	Type   gguf.Type
	Dims   []uint64
	Data   []byte // if nil, zeros for the type and shape
	Offset uint64 // in the tensor data, if Placed is true
	Placed bool   // whether Offset is used, instead of an offset directly after the tensor before
}

// File is a file. The zero value of each field means the right value.
type File struct {
	Magic       string
	Version     uint32
	Alignment   uint64 // used for writing; no key is added for it
	KVs         []KV
	Tensors     []Tensor
	KVCount     *uint64 // the number of keys in the header
	TensorCount *uint64 // the number of tensors in the header
}

// Build returns a file of version 3 with these keys and tensors.
func Build(kvs []KV, tensors []Tensor) []byte {
	return File{KVs: kvs, Tensors: tensors}.Build()
}

// Build returns the file's bytes.
func (f File) Build() []byte {
	if f.Magic == "" {
		f.Magic = "GGUF"
	}
	if f.Version == 0 {
		f.Version = 3
	}
	if f.Alignment == 0 {
		f.Alignment = 32
	}
	w := writer(f.Magic)
	w.u32(f.Version)
	w.u64(count(f.TensorCount, len(f.Tensors)))
	w.u64(count(f.KVCount, len(f.KVs)))
	for _, kv := range f.KVs {
		w.str(kv.Key)
		w.value(kv.Value)
	}
	var data writer
	for _, t := range f.Tensors {
		if t.Data == nil {
			t.Data = make([]byte, dataBytes(t.Type, t.Dims))
		}
		if !t.Placed {
			data.pad(f.Alignment)
			t.Offset = uint64(len(data))
		}
		w.str(t.Name)
		w.u32(uint32(len(t.Dims)))
		for _, d := range t.Dims {
			w.u64(d)
		}
		w.u32(uint32(t.Type))
		w.u64(t.Offset)
		data = append(data, t.Data...)
	}
	if len(f.Tensors) > 0 {
		w.pad(f.Alignment)
	}
	return append(w, data...)
}

// count returns *override if that is not nil, and n otherwise.
func count(override *uint64, n int) uint64 {
	if override != nil {
		return *override
	}
	return uint64(n)
}

// dataBytes returns the size of a tensor's data if the shape is valid, and some small number
// otherwise.
func dataBytes(t gguf.Type, dims []uint64) uint64 {
	elems, bytes := t.Block()
	if elems == 0 {
		return 0
	}
	for _, d := range dims {
		bytes *= d
	}
	if bytes /= elems; bytes > 1<<30 {
		return 0
	}
	return bytes
}

type writer []byte

func (w *writer) u32(x uint32) { *w = binary.LittleEndian.AppendUint32(*w, x) }
func (w *writer) u64(x uint64) { *w = binary.LittleEndian.AppendUint64(*w, x) }

func (w *writer) str(s string) {
	w.u64(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *writer) pad(alignment uint64) {
	for uint64(len(*w))%alignment != 0 {
		*w = append(*w, 0)
	}
}

func (w *writer) value(x any) {
	if raw, ok := x.(Raw); ok {
		w.u32(uint32(raw.Kind))
		*w = append(*w, raw.Bytes...)
		return
	}
	if k, ok := kindOf(x); ok {
		w.u32(uint32(k))
		w.scalar(x)
		return
	}
	w.u32(uint32(gguf.Array))
	switch list := x.(type) {
	case []uint8:
		array(w, list)
	case []int8:
		array(w, list)
	case []uint16:
		array(w, list)
	case []int16:
		array(w, list)
	case []uint32:
		array(w, list)
	case []int32:
		array(w, list)
	case []uint64:
		array(w, list)
	case []int64:
		array(w, list)
	case []float32:
		array(w, list)
	case []float64:
		array(w, list)
	case []bool:
		array(w, list)
	case []string:
		array(w, list)
	default:
		panic(fmt.Sprintf("gguftest: values of type %T are not supported", x))
	}
}

func array[T any](w *writer, list []T) {
	var zero T
	k, _ := kindOf(zero)
	w.u32(uint32(k))
	w.u64(uint64(len(list)))
	for _, x := range list {
		w.scalar(x)
	}
}

func kindOf(x any) (k gguf.Kind, ok bool) {
	switch x.(type) {
	case uint8:
		return gguf.Uint8, true
	case int8:
		return gguf.Int8, true
	case uint16:
		return gguf.Uint16, true
	case int16:
		return gguf.Int16, true
	case uint32:
		return gguf.Uint32, true
	case int32:
		return gguf.Int32, true
	case uint64:
		return gguf.Uint64, true
	case int64:
		return gguf.Int64, true
	case float32:
		return gguf.Float32, true
	case float64:
		return gguf.Float64, true
	case bool:
		return gguf.Bool, true
	case string:
		return gguf.String, true
	}
	return 0, false
}

func (w *writer) scalar(x any) {
	switch x := x.(type) {
	case string:
		w.str(x)
	case bool:
		b := byte(0)
		if x {
			b = 1
		}
		*w = append(*w, b)
	default:
		b, err := binary.Append(*w, binary.LittleEndian, x)
		if err != nil {
			panic(err)
		}
		*w = b
	}
}

// Count returns a pointer to n, for the counts of a File.
func Count(n uint64) *uint64 { return &n }

// F32 returns the data of an F32 tensor with the given elements.
func F32(x ...float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
