package arch

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

// tensors returns a file's tensors by name, and checks each against the shape that the
// architecture expects. It keeps the first error, and records which tensors were used.
type tensors struct {
	file *gguf.File
	used map[string]bool
	err  error // the first error
}

func newTensors(f *gguf.File) *tensors { return &tensors{file: f, used: map[string]bool{}} }

// wrong sets an error with a formatted message, which it prefixes with the file's name, unless
// there is an error already.
func (t *tensors) wrong(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%s: "+format, append([]any{t.file.Name()}, args...)...)
	}
}

// matrix returns a matrix of rows outputs and cols inputs.
func (t *tensors) matrix(name string, rows, cols int) kernels.Matrix {
	return t.get(name, false, rows, cols)
}

// vector returns a vector of cols elements, such as a norm's gain, as a matrix of one row.
func (t *tensors) vector(name string, cols int) kernels.Matrix {
	return t.get(name, true, 1, cols)
}

// has reports whether the file has a tensor.
func (t *tensors) has(name string) bool {
	_, ok := t.file.Tensor(name)
	return ok
}

// hasRows reports whether the file has a matrix with that number of rows.
func (t *tensors) hasRows(name string, rows int) bool {
	x, ok := t.file.Tensor(name)
	return ok && x.HasShape(x.Dims[0], uint64(rows))
}

// get returns a tensor as a matrix. After an error, the matrix has the right shape and no data.
func (t *tensors) get(name string, vector bool, rows, cols int) kernels.Matrix {
	m := kernels.Matrix{Name: name, Rows: rows, Cols: cols}
	x, ok := t.file.Tensor(name)
	if !ok {
		t.wrong("no tensor %s", name)
		return m
	}
	t.used[name] = true
	want := fmt.Sprintf("[%d, %d]", cols, rows)
	if vector {
		want = fmt.Sprintf("[%d]", cols)
	}
	if !x.HasShape(uint64(cols), uint64(rows)) {
		t.wrong("tensor %s has shape %v, but the file's keys require %s", name, x.Dims, want)
		return m
	}
	kind, ok := x.Type.Kernel()
	if !ok {
		t.wrong("tensor %s is of type %v, which is not supported yet; these are: %v", name, x.Type, kernels.WeightTypes())
		return m
	}
	if vector && kind.Quantized() {
		t.wrong("tensor %s is of type %v, but a vector must be F32, F16 or BF16", name, x.Type)
		return m
	}
	m, _ = x.Matrix(rows, cols)
	return m
}

// float32s returns the elements of a vector, whose type must be F32.
func (t *tensors) float32s(name string, cols int) []float32 {
	m := t.vector(name, cols)
	if t.err == nil && m.Type != kernels.F32 {
		t.wrong("tensor %s is of type %v, but must be F32", name, m.Type)
	}
	if t.err != nil {
		return nil
	}
	tensor, _ := t.file.Tensor(name)
	data, err := tensor.Read()
	if err != nil {
		t.err = fmt.Errorf("tensor %s: %w", name, err)
		return nil
	}
	x := make([]float32, cols)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

// rowsOf divides a matrix into matrices with the numbers of rows in parts. They refer to the same
// memory.
func (t *tensors) rowsOf(m kernels.Matrix, parts []int) []kernels.Matrix {
	all := make([]kernels.Matrix, len(parts))
	data := m.Data
	for i, rows := range parts {
		all[i] = m
		all[i].Rows, all[i].Data = rows, nil
		if t.err != nil {
			continue // the matrix may have no data
		}
		bytes := int64(len(m.Data)) / int64(m.Rows) * int64(rows)
		all[i].Data, data = data[:bytes:bytes], data[bytes:]
	}
	return all
}

// elementsOf divides a vector into vectors with the numbers of elements in parts.
func (t *tensors) elementsOf(m kernels.Matrix, parts []int) []kernels.Matrix {
	m.Rows, m.Cols = m.Cols, 1
	all := t.rowsOf(m, parts)
	for i := range all {
		all[i].Rows, all[i].Cols = 1, all[i].Rows
	}
	return all
}

// rows returns the number of rows in the file of a matrix with cols columns.
func (t *tensors) rows(name string, cols int) int {
	x, ok := t.file.Tensor(name)
	switch {
	case !ok:
		t.wrong("no tensor %s", name)
	case len(x.Dims) < 2 || !x.HasShape(uint64(cols), x.Dims[1]):
		t.wrong("tensor %s has shape %v, but the file's keys require [%d, tokens]", name, x.Dims, cols)
	case x.Dims[1] > math.MaxInt32:
		t.wrong("tensor %s has %d rows", name, x.Dims[1])
	default:
		return int(x.Dims[1])
	}
	return 1
}

// rest sets an error if the file has a tensor that was not used. Ignoring a bias or a block, for
// example, would silently give wrong results.
func (t *tensors) rest() {
	for _, x := range t.file.Tensors() {
		if !t.used[x.Name] {
			t.wrong("tensor %s: not part of the architecture, or beyond the file's block count", gguf.Quote(x.Name))
		}
	}
}
