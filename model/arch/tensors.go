package arch

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model/gguf"
)

// tensors takes a file's tensors one by one, checking each against the shape
// that the architecture expects. It keeps the first error.
type tensors struct {
	file  *gguf.File
	taken map[string]bool
	err   error
}

func take(f *gguf.File) *tensors { return &tensors{file: f, taken: map[string]bool{}} }

func (t *tensors) wrong(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%s: "+format, append([]any{t.file.Name()}, args...)...)
	}
}

// matrix takes a weight of rows outputs and cols inputs.
func (t *tensors) matrix(name string, rows, cols int) kernels.Matrix {
	return t.get(name, false, rows, cols)
}

// vector takes a weight of cols elements, such as a norm's gain.
func (t *tensors) vector(name string, cols int) kernels.Matrix {
	return t.get(name, true, 1, cols)
}

// has says whether the file has a tensor.
func (t *tensors) has(name string) bool {
	_, ok := t.file.Tensor(name)
	return ok
}

// hasRows says whether the file has a matrix of so many rows.
func (t *tensors) hasRows(name string, rows int) bool {
	x, ok := t.file.Tensor(name)
	return ok && x.HasShape(x.Dims[0], uint64(rows))
}

func (t *tensors) get(name string, vector bool, rows, cols int) kernels.Matrix {
	m := kernels.Matrix{Name: name, Rows: rows, Cols: cols}
	x, ok := t.file.Tensor(name)
	if !ok {
		t.wrong("no tensor %s", name)
		return m
	}
	t.taken[name] = true
	want := fmt.Sprintf("[%d, %d]", cols, rows)
	if vector {
		want = fmt.Sprintf("[%d]", cols)
	}
	if !x.HasShape(uint64(cols), uint64(rows)) {
		t.wrong("tensor %s has shape %v, the file's keys ask for %s", name, x.Dims, want)
		return m
	}
	kind, ok := x.Type.Kernel()
	if !ok {
		t.wrong("tensor %s is of type %v, which is not supported yet; these are: %v", name, x.Type, kernels.WeightTypes())
		return m
	}
	if vector && kind.Quantized() {
		t.wrong("tensor %s is of type %v: a vector may be F32, F16 or BF16", name, x.Type)
		return m
	}
	m, _ = x.Matrix(rows, cols)
	return m
}

// float32s takes a vector of F32 and returns its elements.
func (t *tensors) float32s(name string, cols int) []float32 {
	m := t.vector(name, cols)
	if t.err == nil && m.Type != kernels.F32 {
		t.wrong("tensor %s is of type %v, it must be F32", name, m.Type)
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

// rowsOf divides a matrix into matrices of so many rows each, in order. They
// read the same memory.
func (t *tensors) rowsOf(m kernels.Matrix, parts []int) []kernels.Matrix {
	all := make([]kernels.Matrix, len(parts))
	data := m.Data
	for i, rows := range parts {
		all[i] = m
		all[i].Rows, all[i].Data = rows, nil
		if t.err != nil {
			continue // only a tensor that was taken has the data for its shape
		}
		bytes := int64(len(m.Data)) / int64(m.Rows) * int64(rows)
		all[i].Data, data = data[:bytes:bytes], data[bytes:]
	}
	return all
}

// elementsOf divides a vector likewise, into vectors of so many elements.
func (t *tensors) elementsOf(m kernels.Matrix, parts []int) []kernels.Matrix {
	m.Rows, m.Cols = m.Cols, 1
	all := t.rowsOf(m, parts)
	for i := range all {
		all[i].Rows, all[i].Cols = 1, all[i].Rows
	}
	return all
}

// rows returns how many rows a matrix of cols columns has in the file.
func (t *tensors) rows(name string, cols int) int {
	x, ok := t.file.Tensor(name)
	switch {
	case !ok:
		t.wrong("no tensor %s", name)
	case len(x.Dims) < 2 || !x.HasShape(uint64(cols), x.Dims[1]):
		t.wrong("tensor %s has shape %v, the file's keys ask for [%d, tokens]", name, x.Dims, cols)
	case x.Dims[1] > math.MaxInt32:
		t.wrong("tensor %s has %d rows", name, x.Dims[1])
	default:
		return int(x.Dims[1])
	}
	return 1
}

// rest refuses tensors that the architecture didn't take: to leave a bias or a
// block out would give a wrong answer without a word.
func (t *tensors) rest() {
	for _, x := range t.file.Tensors() {
		if !t.taken[x.Name] {
			t.wrong("tensor %s: the architecture, or the file's block count, has no place for it", gguf.Quote(x.Name))
		}
	}
}
