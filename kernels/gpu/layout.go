package gpu

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/kernels"
)

const (
	segment = 256 // columns that a product sums on their own
	block   = 32  // columns that share a scale, of activations too
	warp    = 32  // rows of a panel, and of threads that work as one
	chunk   = 16  // bytes
)

// weightTypes are those that have kernels.
var weightTypes = kernels.Types{
	kernels.F32, kernels.F16, kernels.BF16, kernels.Q8_0, kernels.Q4_0, kernels.Q4_K, kernels.Q6_K,
}

// layout is how a matrix lies in a GPU's memory: panels of 32 rows, as
// source/params.h draws them, or a vector's plain numbers.
type layout struct {
	typ    kernels.Type // of what lies there: a vector is F32 whatever the file has
	lanes  int          // rows of a panel: 32, or 1 of a vector
	cols   int
	panels int
	full   int // chunks of a whole segment of a row
	chunks int // of a row
}

// isVector says whether a matrix is kept as a plain row of F32.
func isVector(t kernels.Type, rows int) bool {
	return rows == 1 && (t == kernels.F32 || t == kernels.F16 || t == kernels.BF16)
}

// layoutOf returns the layout of a matrix of that type and shape.
func layoutOf(t kernels.Type, rows, cols int) (layout, error) {
	if rows <= 0 || cols <= 0 {
		return layout{}, fmt.Errorf("a weight of shape [%d, %d]: both must be positive", rows, cols)
	}
	l := layout{typ: t, lanes: warp, cols: cols, panels: rows / warp}
	if rows%warp > 0 {
		l.panels++
	}
	if isVector(t, rows) {
		l.typ, l.lanes = kernels.F32, 1
	}
	if l.full = segmentChunks(l.typ, segment); l.full == 0 {
		return layout{}, fmt.Errorf("weights of %v can't be packed for a GPU yet: they may be %v. A CPU takes every type", t, weightTypes)
	}
	if rows > math.MaxInt32 || cols > math.MaxInt32-segment {
		return layout{}, fmt.Errorf("a weight of shape [%d, %d] is larger than a kernel counts", rows, cols)
	}
	if _, err := t.RowBytes(cols); err != nil {
		return layout{}, err
	}
	l.chunks = cols/segment*l.full + segmentChunks(l.typ, cols%segment)
	return l, nil
}

// segmentChunks returns how many chunks a row has of a segment of cols columns;
// 0 for a type that has no layout.
func segmentChunks(t kernels.Type, cols int) int {
	elems, size := t.Block()
	switch t {
	case kernels.F32, kernels.F16, kernels.BF16:
		return (cols*size + chunk - 1) / chunk
	case kernels.Q8_0, kernels.Q4_0:
		if cols == 0 {
			return 0
		}
		return 1 + cols/elems*(size-2)/chunk
	case kernels.Q4_K, kernels.Q6_K:
		return cols / elems * ((size + chunk - 1) / chunk)
	}
	return 0
}

// panelBytes is the size of a panel.
func (l *layout) panelBytes() int64 { return int64(l.chunks) * int64(l.lanes) * chunk }

// bytes is the size of all panels.
func (l *layout) bytes() (int64, error) {
	if int64(l.panels) > (math.MaxInt64-page)/l.panelBytes() {
		return 0, fmt.Errorf("%d panels of %d columns of %v weights are more than memory can hold", l.panels, l.cols, l.typ)
	}
	return int64(l.panels) * l.panelBytes(), nil
}

// page is in what pieces a driver gives memory away. Smaller allocations share one;
// of more than half a page, each begins with one of its own.
const page = 2 << 20

// wholePages is what an allocation of so many bytes takes from what is free. Whatever
// may be large asks for that, so that a plan that fills a GPU comes out: each of a
// large model's hundreds of weights would else take a megabyte that nobody counted.
func wholePages(bytes int64) int64 {
	if bytes <= page/2 {
		return bytes
	}
	return (bytes + page - 1) / page * page
}

// segments is how many segments a panel has, the last of which may be shorter.
func (l *layout) segments() int { return (l.cols + segment - 1) / segment }

// unit returns where segment u lies, counted over all panels, and its size.
func (l *layout) unit(u int64) (at int64, size int) {
	p, s := u/int64(l.segments()), int(u%int64(l.segments()))
	return p*l.panelBytes() + int64(s)*int64(l.full)*int64(l.lanes)*chunk,
		min(l.full, l.chunks-s*l.full) * l.lanes * chunk
}
