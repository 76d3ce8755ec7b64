package cpu

import (
	"runtime"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/panel"
)

// workspace is what the products of a batch need: the rows in quantized form,
// and for each worker the lanes of a panel that stands over the edge.
func workspace(workers, rows, cols int) (quantized, edge int64, err error) {
	if cols > 0 {
		whole := (cols + panel.Block - 1) / panel.Block * panel.Block
		if quantized, err = panel.ActivationBytes(rows, whole); err != nil {
			return 0, 0, err
		}
	}
	return quantized, 4 * panel.Lanes * int64(min(rows, mostRows)) * int64(workers), nil
}

func (backend) WorkspaceBytes(d device.Info, rows, cols int) (int64, error) {
	quantized, edge, err := workspace(min(len(d.Cores), runtime.GOMAXPROCS(0)), rows, cols)
	return quantized + edge, err
}

func (q *queue) Reserve(rows, cols int) error {
	quantized, edge, err := workspace(q.Workers(), rows, cols)
	if err != nil {
		return err
	}
	if _, err := q.quantize.mem.take(q.Device(), quantized); err != nil {
		return err
	}
	_, err = q.matmul.edge.take(q.Device(), edge)
	return err
}
