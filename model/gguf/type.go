package gguf

import (
	"fmt"

	"github.com/leat-dev/leat/kernels"
)

// Type is the format of a tensor's elements. Its values are ggml's, which files contain.
type Type uint32

// The tensor types. A quantized type stores the elements of a row in blocks.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
)

// layouts has each type's name, and the elements and bytes of a block, as in ggml's table of
// type traits. It includes types with which Leat doesn't compute, so that the tensors of any
// file can be listed and checked. elems is 0 for types that were removed from the format.
var layouts = [...]struct {
	name         string
	elems, bytes uint64
}{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, F64: {"F64", 1, 8},
	I8: {"I8", 1, 1}, I16: {"I16", 1, 2}, I32: {"I32", 1, 4}, I64: {"I64", 1, 8},

	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20},
	Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, Q8_1: {"Q8_1", 32, 36},

	Q2_K: {"Q2_K", 256, 84}, Q3_K: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144},
	Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210}, Q8_K: {"Q8_K", 256, 292},

	IQ1_S: {"IQ1_S", 256, 50}, IQ1_M: {"IQ1_M", 256, 56},
	IQ2_XXS: {"IQ2_XXS", 256, 66}, IQ2_XS: {"IQ2_XS", 256, 74}, IQ2_S: {"IQ2_S", 256, 82},
	IQ3_XXS: {"IQ3_XXS", 256, 98}, IQ3_S: {"IQ3_S", 256, 110},
	IQ4_NL: {"IQ4_NL", 32, 18}, IQ4_XS: {"IQ4_XS", 256, 136},

	TQ1_0: {"TQ1_0", 256, 54}, TQ2_0: {"TQ2_0", 256, 66},
	MXFP4: {"MXFP4", 32, 17}, NVFP4: {"NVFP4", 64, 36}, Q1_0: {"Q1_0", 128, 18}, Q2_0: {"Q2_0", 64, 18},

	4: {name: "Q4_2"}, 5: {name: "Q4_3"},
	31: {name: "Q4_0_4_4"}, 32: {name: "Q4_0_4_8"}, 33: {name: "Q4_0_8_8"},
	36: {name: "IQ4_NL_4_4"}, 37: {name: "IQ4_NL_4_8"}, 38: {name: "IQ4_NL_8_8"},
}

// String returns ggml's name for the type, in upper case.
func (t Type) String() string {
	if t < Type(len(layouts)) {
		return layouts[t].name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the number of elements and of bytes in a block of the type. Both are 0 for an
// unknown type and for one that was removed from the format.
func (t Type) Block() (elems, bytes uint64) {
	if t < Type(len(layouts)) {
		return layouts[t].elems, layouts[t].bytes
	}
	return 0, 0
}

// check returns an error if a tensor can't be of this type.
func (t Type) check() error {
	switch elems, _ := t.Block(); {
	case t >= Type(len(layouts)):
		return fmt.Errorf("tensor type %d is not known: the file is damaged, or newer than this Leat", uint32(t))
	case elems == 0:
		return fmt.Errorf("tensor type %v was removed from GGUF: quantize the model again", t)
	}
	return nil
}

// Kernel returns the op set's type for t. ok is false if the op set doesn't support it.
func (t Type) Kernel() (k kernels.Type, ok bool) {
	k, ok = computed[t]
	return k, ok
}

// computed has the types that Leat computes with, by their names.
var computed = func() map[Type]kernels.Type {
	types := map[string]kernels.Type{}
	for _, k := range kernels.WeightTypes() {
		types[k.String()] = k
	}
	m := map[Type]kernels.Type{}
	for t := range Type(len(layouts)) {
		if k, ok := types[t.String()]; ok {
			m[t] = k
		}
	}
	return m
}()
