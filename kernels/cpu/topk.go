package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// Columns are searched in groups, each of which is known by its largest number: with
// that of the k-th group, in order of their largest, at least k columns are as large,
// so that no smaller one needs looking at. Few groups have such a column.
const (
	topKGroup   = 64   // columns of a group
	topKStretch = 1024 // columns of a unit of the first pass, whole groups
)

// topK is the work of one TopK, in two passes. The unit of the first, which finds
// the groups' largest numbers, is a stretch of a row; that of the second, a row.
type topK struct {
	kern        *panel.Kernels
	x, values   []float32
	ids         []int32
	n, cols, k  int
	stretches   int // of a row
	groups      int // of a row
	parts       int
	second      bool
	largest     []float32 // of each group of each row
	keys        []uint64  // for each worker, what it sorts
	keysAWorker int
	work        scratch // holds largest and keys
}

func (q *queue) TopK(ids, values, x kernels.Tensor) {
	if q.Failed() {
		return
	}
	a := args{op: "TopK"}
	j := &q.topK
	j.n, j.cols, j.k = x.Rows, x.Cols, ids.Cols
	j.x = a.floats("x", x, x.Rows, x.Cols)
	j.ids = a.ints("ids", ids, x.Rows, ids.Cols)
	j.values = a.floats("values", values, x.Rows, ids.Cols)
	if j.k > kernels.MostTopK {
		a.fail("the %d largest of each row: at most %d can be asked for", j.k, kernels.MostTopK)
	}
	if overlap(j.values, j.x) || overlap(j.ids, j.x) {
		a.fail("ids or values lie over x")
	}
	if !q.ready(&a) || j.n == 0 {
		return
	}
	j.groups = (j.cols + topKGroup - 1) / topKGroup
	j.stretches = (j.cols + topKStretch - 1) / topKStretch
	// Keys of all groups, then of the columns of k groups.
	j.keysAWorker = max(j.groups, (j.k+1)*topKGroup)
	largest := (4*int64(j.n)*int64(j.groups) + 63) / 64 * 64
	mem, err := j.work.take(q.Device(), largest+8*int64(j.keysAWorker)*int64(q.Workers()))
	if err != nil {
		q.Fail(fmt.Errorf("TopK: %w", err))
		return
	}
	j.largest, j.keys = float32s(mem[:largest]), elementsOf[uint64](mem[largest:])
	j.second = false
	j.parts = parts(j.n*j.stretches, float64(len(j.x))/8)
	q.Parallel(j.parts, j)
	j.second = true
	j.parts = parts(j.n, float64(j.n)*(3*float64(j.groups)+100*float64(j.k)))
	q.Parallel(j.parts, j)
}

// Do does a span of a pass's units.
func (j *topK) Do(part, worker int) {
	if j.second {
		from, to := span(part, j.parts, j.n)
		for r := from; r < to; r++ {
			j.row(r, j.keys[worker*j.keysAWorker:][:j.keysAWorker])
		}
		return
	}
	from, to := span(part, j.parts, j.n*j.stretches)
	for u := from; u < to; u++ {
		j.stretch(u/j.stretches, u%j.stretches)
	}
}

// stretch finds the largest numbers of a stretch's groups.
func (j *topK) stretch(row, number int) {
	x := j.x[row*j.cols:][:j.cols]
	largest := j.largest[row*j.groups:][:j.groups]
	for at := number * topKStretch; at < min((number+1)*topKStretch, j.cols); at += topKGroup {
		largest[at/topKGroup] = j.kern.Max(x[at:min(at+topKGroup, j.cols)])
	}
}

// row finds a row's largest numbers in the groups that have them.
func (j *topK) row(row int, keys []uint64) {
	x := j.x[row*j.cols:][:j.cols]
	largest := j.largest[row*j.groups:][:j.groups]
	floor := float32(math.Inf(-1))
	if j.groups > j.k {
		for g, v := range largest {
			keys[g] = keyOf(v, g)
		}
		floor = largest[columnOf(kthLargest(keys[:j.groups], j.k))]
	}
	// Fewer than k groups have a larger column than the floor, so that those have
	// room, and k more that are equal to it.
	found, equals := 0, 0
	for g, v := range largest {
		if v < floor {
			continue
		}
		for col := g * topKGroup; col < min((g+1)*topKGroup, j.cols); col++ {
			switch v := x[col]; {
			case v == floor:
				if equals == j.k {
					continue
				}
				equals++
			case !(v > floor):
				continue
			}
			keys[found] = keyOf(x[col], col)
			found++
		}
	}
	top := keys[:found]
	if found > j.k {
		kthLargest(top, j.k)
		top = top[:j.k]
	}
	slices.Sort(top)
	ids, values := j.ids[row*j.k:][:j.k], j.values[row*j.k:][:j.k]
	for i := range ids {
		if i < len(top) {
			col := columnOf(top[len(top)-1-i])
			ids[i], values[i] = int32(col), x[col]
		} else {
			ids[i], values[i] = -1, float32(math.Inf(-1))
		}
	}
}

// keyOf is a number and its column as one that is greater where the number is, or
// where it is equal and the column lower. (A float's bits are in order but for the
// sign; zeros are made equal.)
func keyOf(v float32, col int) uint64 {
	bits := math.Float32bits(v)
	if v == 0 {
		bits = 0
	}
	bits ^= uint32(int32(bits)>>31) | 1<<31
	return uint64(bits)<<32 | uint64(^uint32(col))
}

func columnOf(key uint64) int { return int(^uint32(key)) }

// kthLargest puts the k largest keys first, and returns the least of these. (Hoare,
// "Algorithm 65: Find", 1961.)
func kthLargest(keys []uint64, k int) uint64 {
	from, to := 0, len(keys)-1
	for from < to {
		pivot := median(keys[from], keys[(from+to)/2], keys[to])
		i, j := from, to
		for i <= j {
			for keys[i] > pivot {
				i++
			}
			for keys[j] < pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k-1 <= j:
			to = j
		case k-1 >= i:
			from = i
		default:
			return keys[k-1]
		}
	}
	return keys[k-1]
}

func median(a, b, c uint64) uint64 { return max(min(a, b), min(max(a, b), c)) }
