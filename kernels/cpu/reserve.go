package cpu

import (
	"runtime"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/panel"
)

// workspace is what the products of a batch need: the rows in quantized form and, where
// BF16 weights multiply such, rounded to BF16, and for each worker the lanes of a panel
// that stands over the edge.
type workspace struct{ quantized, rounded, edge int64 }

func newWorkspace(rounds bool, workers, rows, cols int) (w workspace, err error) {
	if cols > 0 {
		whole := (cols + panel.Block - 1) / panel.Block * panel.Block
		if w.quantized, err = panel.ActivationBytes(rows, whole); err != nil {
			return workspace{}, err
		}
		if rounds {
			w.rounded = roundedBytes(rows, cols)
		}
	}
	w.edge = 4 * panel.Lanes * int64(min(rows, mostRows)) * int64(workers)
	return w, nil
}

func (backend) WorkspaceBytes(d device.Info, rows, cols int) (int64, error) {
	rounds := false // an imagined device has no level
	if k, err := panel.For(d.SIMD); err == nil {
		rounds = k.RoundsBF16()
	}
	w, err := newWorkspace(rounds, min(len(d.Cores), runtime.GOMAXPROCS(0)), rows, cols)
	return w.quantized + w.rounded + w.edge, err
}

func (q *queue) Reserve(rows, cols int) error {
	w, err := newWorkspace(q.kern.RoundsBF16(), q.Workers(), rows, cols)
	if err != nil {
		return err
	}
	if _, err := q.quantize.mem.take(q.Device(), w.quantized); err != nil {
		return err
	}
	if _, err := q.round.mem.take(q.Device(), w.rounded); err != nil {
		return err
	}
	_, err = q.matmul.edge.take(q.Device(), w.edge)
	return err
}
