package blocks_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

const references = "../../../shared/reference/types"

// typeNamed returns the type that a name in any case means.
func typeNamed(t *testing.T, name string) kernels.Type {
	for _, k := range kernels.WeightTypes() {
		if strings.EqualFold(k.String(), name) {
			return k
		}
	}
	require.Fail(t, "no such type", name)
	return 0
}

// Each type's reference has the bytes of a matrix and the float32 that they stand for.
func TestValuesAreTheReferences(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(references, "types.json"))
	if os.IsNotExist(err) {
		t.Skip("the reference matrices of all types aren't here: ", references)
	}
	require.NoError(t, err)
	var list struct {
		Rows, Cols int
		Types      []struct {
			Name       string
			Block      int
			BlockBytes int `json:"block_bytes"`
		}
	}
	require.NoError(t, json.Unmarshal(data, &list))
	seen := 0
	for _, x := range list.Types {
		typ := typeNamed(t, x.Name)
		elems, size := typ.Block()
		assert.Equal(t, []int{x.Block, x.BlockBytes}, []int{elems, size}, x.Name)
		f := blocks.For(typ)
		if f == nil {
			assert.False(t, typ.Quantized(), x.Name)
			continue
		}
		seen++
		bin, err := os.ReadFile(filepath.Join(references, x.Name+".bin"))
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(references, x.Name+".f32"))
		require.NoError(t, err)
		rowBytes, err := typ.RowBytes(list.Cols)
		require.NoError(t, err)
		wrong := 0
		for r := range list.Rows {
			row := bin[int64(r)*rowBytes:][:rowBytes]
			var u blocks.Unit
			for i := range f.Units(list.Cols) {
				got := make([]float32, f.Cols)
				f.Unpack(&u, row, i)
				f.Values(got, &u)
				for c, v := range got {
					w := binary.LittleEndian.Uint32(want[4*(r*list.Cols+i*f.Cols+c):])
					if math.Float32bits(v) != w {
						wrong++
						if wrong < 4 {
							t.Errorf("%s, row %d, column %d: %g, the reference has %g", x.Name, r, i*f.Cols+c, v, math.Float32frombits(w))
						}
					}
				}
			}
		}
		assert.Zero(t, wrong, x.Name)
	}
	quantized := 0
	for _, k := range kernels.WeightTypes() {
		if k.Quantized() {
			quantized++
		}
	}
	assert.Equal(t, quantized, seen, "each quantized type has a reference")
}

// Any bytes can be unpacked, and the codes are within the form.
func FuzzUnpack(f *testing.F) {
	f.Add(uint8(0), []byte("a block of any type"))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		types := kernels.WeightTypes()
		typ := types[int(which)%len(types)]
		form := blocks.For(typ)
		if form == nil {
			return
		}
		elems, size := typ.Block()
		block := make([]byte, size)
		copy(block, data)
		for i := range elems / form.Cols {
			var u blocks.Unit
			form.Unpack(&u, block, i)
			for c, code := range u.Codes[:form.Cols] {
				if int(code) >= 1<<form.Bits {
					t.Fatalf("%v: code %d of column %d has more than %d bits", typ, code, c, form.Bits)
				}
			}
			form.Values(make([]float32, form.Cols), &u)
		}
	})
}

func TestScalarFormats(t *testing.T) {
	for e := range 256 {
		want := float32(math.Ldexp(1, e-128))
		if e == 255 {
			want = 0x1p127
		}
		assert.Equal(t, want, blocks.PowerOfTwo(byte(e)), e)
	}
	for e := range 128 {
		want := math.Ldexp(float64(e&7)/8, -6)
		if e >= 8 {
			want = math.Ldexp(1+float64(e&7)/8, e>>3-7)
		}
		assert.Equal(t, float32(want/2), blocks.SmallFloat(byte(e)), e)
	}
}

func ExampleForm_Values() {
	f := blocks.For(kernels.Q4_0)
	row := make([]byte, 18) // one block of 32 columns
	binary.LittleEndian.PutUint16(row, 0x3c00)
	row[2] = 0x19 // columns 0 and 16
	var u blocks.Unit
	f.Unpack(&u, row, 0)
	values := make([]float32, f.Cols)
	f.Values(values, &u)
	fmt.Println(values[0], values[16])
	// Output: 1 -7
}
