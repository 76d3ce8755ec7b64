// Package cpu is the op set of package kernels on a group of CPU cores.
//
// Importing it registers the backend. The ops' inner loops are those of
// internal/panel, at the device's SIMD level. An op runs on the spot: on the
// caller alone where it is small, else in parts of some tens of microseconds
// over the device's workers. How the work is cut never changes the order of a
// sum. In the steady state an op allocates nothing.
package cpu

import (
	"fmt"

	"github.com/leat-dev/leat/device"
	host "github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

func init() { kernels.Register(backend{}) }

type backend struct{}

func (backend) Kind() device.Kind { return device.CPU }

func (backend) NewQueue(d device.Device) (kernels.Queue, error) {
	info := d.Info()
	inner, err := d.NewQueue()
	if err != nil {
		return nil, err
	}
	cores, ok := inner.(*host.Queue)
	if !ok {
		inner.Close()
		return nil, fmt.Errorf("%s is not a device of package device/cpu: it has no queue that these kernels run on", info.Name)
	}
	kern, err := panel.For(info.SIMD)
	if err != nil {
		inner.Close()
		return nil, fmt.Errorf("%s: %w", info.Name, err)
	}
	q := &queue{Queue: cores, kern: kern}
	q.norm.kern, q.matmul.kern, q.quantize.kern, q.round.kern = kern, kern, kern, kern
	q.store.kern, q.attention.kern, q.elementwise.kern, q.addBias.kern = kern, kern, kern, kern
	q.rope.kern, q.argmax.kern, q.topK.kern = kern, kern, kern
	return q, nil
}

// queue is a CPU device's queue with the op set. Each op keeps its work in a
// field, so that handing it to the workers allocates nothing.
type queue struct {
	*host.Queue
	kern *panel.Kernels

	embed       embed
	gather      gather
	argmax      argmax
	topK        topK
	norm        norm
	quantize    quantize
	round       round
	matmul      matmul
	rope        rope
	store       store
	attention   attention
	elementwise elementwise
	addBias     addBias
}

// Close frees the ops' scratch and the queue.
func (q *queue) Close() error {
	err := q.Queue.Close()
	for _, s := range []*scratch{
		&q.argmax.best, &q.topK.work, &q.quantize.mem, &q.round.mem, &q.matmul.spread, &q.matmul.edge, &q.rope.turns, &q.store.halves, &q.attention.work,
	} {
		if e := s.free(); err == nil {
			err = e
		}
	}
	return err
}
