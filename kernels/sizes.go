package kernels

import (
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
)

// Sizes says what things take on a kind of device, before anything is there.
type Sizes interface {
	// WeightBytes returns what Pack will take.
	WeightBytes(t Type, rows, cols int) (int64, error)

	// CacheBytes returns what NewCache will take.
	CacheBytes(s CacheSpec) (int64, error)

	// WorkspaceBytes returns what Reserve will take on such a device, and what
	// the device needs for itself before anything is on it.
	WorkspaceBytes(d device.Info, rows, cols int) (int64, error)
}

// SizesFor returns the sizes on a kind of device: its backend's own, or, for a
// kind whose backend isn't in this build, an estimate, so that one can plan for
// a machine that isn't at hand.
func SizesFor(k device.Kind) Sizes {
	if b, err := For(k); err == nil {
		return b
	}
	return estimate{}
}

// estimate takes weights and caches to lie as a file stores them.
type estimate struct{}

// ContextBytes is about what a GPU's driver takes for a process's context and
// its kernels.
const ContextBytes = 384 << 20

func (estimate) WeightBytes(t Type, rows, cols int) (int64, error) {
	row, err := t.RowBytes(cols)
	if err != nil {
		return 0, err
	}
	if rows < 0 || row > 0 && int64(rows) > math.MaxInt64/row {
		return 0, fmt.Errorf("a weight of %d rows of %d columns", rows, cols)
	}
	return int64(rows) * row, nil
}

func (e estimate) CacheBytes(s CacheSpec) (int64, error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	page, err := e.WeightBytes(s.Type, 2*s.Heads*PageTokens, s.HeadDim)
	if err == nil && page > math.MaxInt64/int64(s.Pages) {
		err = fmt.Errorf("a key/value cache of %d pages of %d bytes", s.Pages, page)
	}
	return page * int64(s.Pages), err
}

func (e estimate) WorkspaceBytes(d device.Info, rows, cols int) (int64, error) {
	bytes, err := e.WeightBytes(Q8_0, rows, (cols+31)/32*32)
	if !d.HostMemory {
		bytes += ContextBytes
	}
	return bytes, err
}
