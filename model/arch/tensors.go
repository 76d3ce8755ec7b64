package arch

import (
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

func (t *tensors) get(name string, vector bool, rows, cols int) kernels.Matrix {
	m := kernels.Matrix{Name: name, Rows: rows, Cols: cols}
	x, ok := t.file.Tensor(name)
	if !ok {
		t.wrong("no tensor %s", name)
		return m
	}
	t.taken[name] = true
	want := fmt.Sprintf("[%d, %d]", cols, rows)
	good := len(x.Dims) == 2 && x.Dims[0] == uint64(cols) && x.Dims[1] == uint64(rows)
	if vector {
		want = fmt.Sprintf("[%d]", cols)
		good = len(x.Dims) == 1 && x.Dims[0] == uint64(cols)
	}
	if !good {
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
	m.Type, m.Data = kind, x.Data
	return m
}

// rows returns how many rows a matrix of cols columns has in the file.
func (t *tensors) rows(name string, cols int) int {
	x, ok := t.file.Tensor(name)
	switch {
	case !ok:
		t.wrong("no tensor %s", name)
	case len(x.Dims) != 2 || x.Dims[0] != uint64(cols):
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
			t.wrong("tensor %s: the architecture, or the file's block count, has no place for it", x.Name)
		}
	}
}
