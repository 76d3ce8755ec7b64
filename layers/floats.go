package layers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/leat-dev/leat/kernels"
)

// littleEndian reports whether the machine stores numbers as weights store them.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Bytes returns v in little-endian order, as the Data of a kernels.Matrix of type F32
// has it. On a little-endian machine, which all that Leat is tested on are, the result
// is v's own memory; elsewhere it is a copy. It must not be changed.
func Bytes(v []float32) []byte {
	if littleEndian {
		return bytesOf(v)
	}
	return encode(v)
}

// Floats returns the float32s that data holds in little-endian order, such as a file of
// weights. If the machine is little-endian and data begins at a multiple of 4 bytes,
// the result is data's own memory; otherwise it is a copy. It must not be changed.
// Floats returns an error if data doesn't hold a whole number of float32s.
func Floats(data []byte) ([]float32, error) {
	if len(data)%4 != 0 {
		return nil, fmt.Errorf("%d bytes are not a whole number of float32s, of 4 bytes each", len(data))
	}
	if littleEndian && aligned(data) {
		return floatsOf(data), nil
	}
	return decode(data), nil
}

// View returns the elements of t, row after row, in the device's own memory, which
// Forward may read and write there. It doesn't allocate. The result is valid until
// Forward returns. Its capacity is its length, so that append never writes beyond it.
//
// View returns an error if the device doesn't have its memory where the host can reach
// it (device.Info.HostMemory), as a GPU doesn't: there a layer uses the ops of its
// queue. It also returns an error if t isn't a tensor of float32s within its buffer.
func View(t kernels.Tensor) ([]float32, error) {
	switch {
	case t.Type != kernels.F32:
		return nil, fmt.Errorf("a tensor of %v: only one of F32 can be viewed as float32s", t.Type)
	case t.Rows < 0 || t.Cols < 0 || t.Cols > 0 && t.Rows > math.MaxInt/4/t.Cols:
		return nil, fmt.Errorf("a tensor of shape [%d, %d]", t.Rows, t.Cols)
	case t.Rows == 0 || t.Cols == 0:
		return nil, nil
	case t.Buf == nil:
		return nil, fmt.Errorf("a tensor of shape [%d, %d] without memory", t.Rows, t.Cols)
	}
	mem := t.Buf.Bytes()
	if mem == nil {
		info := t.Buf.Device().Info()
		if info.HostMemory {
			return nil, fmt.Errorf("a tensor in memory of %s that has been freed", info.Name)
		}
		return nil, fmt.Errorf("the host can't reach the memory of %s: use the ops of its queue, or place the layer on the CPU", info.Name)
	}
	have, size := int64(len(mem)), t.Bytes()
	if t.Off < 0 || t.Off > have || size > have-t.Off {
		return nil, fmt.Errorf("a tensor of %d bytes at offset %d of a buffer of %d bytes", size, t.Off, have)
	}
	mem = mem[t.Off : t.Off+size]
	if !aligned(mem) {
		return nil, fmt.Errorf("a tensor at offset %d, which is not a multiple of 4 bytes", t.Off)
	}
	return floatsOf(mem), nil
}

// Matrix returns the weight of type F32 whose rows are values, row after row. The name
// is for errors. On a little-endian machine the matrix has the values' own memory: they
// must not be changed while a layer may still be loaded with it. Matrix returns an error
// if there are not rows·cols values.
func Matrix(name string, rows, cols int, values []float32) (kernels.Matrix, error) {
	if err := checkShape(name, rows, cols); err != nil {
		return kernels.Matrix{}, err
	}
	if int64(len(values)) != int64(rows)*int64(cols) {
		return kernels.Matrix{}, fmt.Errorf("%s: %d values for a matrix of shape [%d, %d]: it has %d", name, len(values), rows, cols, int64(rows)*int64(cols))
	}
	return kernels.Matrix{Name: name, Type: kernels.F32, Rows: rows, Cols: cols, Data: Bytes(values)}, nil
}

// mostWidth is the most numbers in a row of a layer's input or output, which is as many
// as a stage accepts.
const mostWidth = 1 << 31

// checkShape returns an error if no weight can have the shape. The number of elements of
// one that can have it is less than 2⁶³.
func checkShape(name string, rows, cols int) error {
	if rows < 1 || cols < 1 || int64(rows) > mostWidth || int64(cols) > mostWidth {
		return fmt.Errorf("%s: a matrix of shape [%d, %d]: both must be from 1 to %d", name, rows, cols, int64(mostWidth))
	}
	return nil
}

// checkMatrix returns an error if the matrix isn't a weight, or if its data isn't that of
// its shape.
func checkMatrix(m kernels.Matrix) error {
	if err := checkShape(m.Name, m.Rows, m.Cols); err != nil {
		return err
	}
	row, err := m.Type.RowBytes(m.Cols)
	if err == nil && m.Type == kernels.I32 {
		err = errors.New("a weight can't be of I32")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	// rows·row may overflow, the quotient can't.
	if have := int64(len(m.Data)); have%row != 0 || have/row != int64(m.Rows) {
		return fmt.Errorf("%s: %d bytes for a matrix of %v of shape [%d, %d]: it has %d rows of %d bytes", m.Name, have, m.Type, m.Rows, m.Cols, m.Rows, row)
	}
	return nil
}

func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(float32(0)) == 0
}

// bytesOf returns the memory of v as the machine has it.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4)
}

// floatsOf returns aligned memory as float32s as the machine has them.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func encode(v []float32) []byte {
	b := make([]byte, 0, len(v)*4)
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func decode(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
