package gpu

import (
	"fmt"
	"strings"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/gpukernels/ptx"
	"github.com/leat-dev/leat/kernels"
)

func init() {
	kernels.Register(backend{device.CUDA, ptx.Kernels})
}

// backend is the op set on one kind of GPU.
type backend struct {
	kind  device.Kind
	image []byte // the kernels, compiled for that kind
}

func (b backend) Kind() device.Kind { return b.kind }

func (b backend) NewQueue(d device.Device) (kernels.Queue, error) {
	name := d.Info().Name
	p, ok := d.(device.Programmable)
	if !ok {
		return nil, fmt.Errorf("%s doesn't run compiled programs: these kernels need a device that does", name)
	}
	program, err := p.Load(b.image)
	if err != nil {
		return nil, fmt.Errorf("loading the kernels: %w", err)
	}
	inner, err := d.NewQueue()
	if err != nil {
		return nil, err
	}
	launcher, ok := inner.(device.Launcher)
	if !ok {
		inner.Close()
		return nil, fmt.Errorf("%s has no queue that launches programs", name)
	}
	q := &queue{Launcher: launcher, status: launcher.Status()}
	if err := q.functions.find(program); err != nil {
		inner.Close()
		return nil, err
	}
	launcher.Explain(explain)
	return q, nil
}

// queue is a GPU's queue with the op set. Each op keeps its kernel's parameters
// in a field, so that launching it allocates nothing.
type queue struct {
	device.Launcher
	functions functions
	status    uint64 // address of the words that kernels report to
	workspace workspace
	packer    packer

	embed        embedParams
	norm         normParams
	quantize     quantizeParams
	floatProduct floatProductParams
	intProduct   intProductParams
	products     []product
	rope         ropeParams
	storeKV      storeKVParams
	attention    attentionParams
	activate     activateParams
	gated        gatedParams
	number       numberParams
	add          addParams
	addBias      addBiasParams
	gather       gatherParams
	argMax       argMaxParams
	topK         topKParams
}

// Close waits for what was enqueued, and frees the queue and what its ops keep.
func (q *queue) Close() error {
	err := q.Launcher.Close()
	for _, free := range []func() error{q.workspace.free, q.packer.free} {
		if e := free(); err == nil {
			err = e
		}
	}
	return err
}

// types is how many values kernels.Type has, 0 included.
const types = int(kernels.I32) + 1

// functions are the kernels' entry points.
type functions struct {
	embed, rmsNorm, layerNorm, quantize, rope device.Function
	activate, gated, scale, softCap           device.Function
	add, addBias, gather, argMax, topK        device.Function

	storeKV, attention, various [types]device.Function // by the cache's type
	one, many                   [types]device.Function // products of few and of many rows, by the weight's type
}

func (f *functions) find(p device.Program) error {
	var err error
	get := func(to *device.Function, name string) {
		if err == nil {
			*to, err = p.Function("leat_" + name)
		}
	}
	get(&f.embed, "embed")
	get(&f.rmsNorm, "rms_norm")
	get(&f.layerNorm, "layer_norm")
	get(&f.quantize, "quantize")
	get(&f.rope, "rope")
	get(&f.activate, "activate")
	get(&f.gated, "gated")
	get(&f.scale, "scale")
	get(&f.softCap, "soft_cap")
	get(&f.add, "add")
	get(&f.addBias, "add_bias")
	get(&f.gather, "gather")
	get(&f.argMax, "argmax")
	get(&f.topK, "top_k")
	for _, t := range weightTypes {
		name := strings.ToLower(t.String())
		get(&f.one[t], "product_one_"+name)
		get(&f.many[t], "product_many_"+name)
		if (kernels.CacheSpec{Type: t, Heads: 1, HeadDim: 32, Pages: 1}).Check() == nil {
			get(&f.storeKV[t], "store_kv_"+name)
			get(&f.attention[t], "attention_"+name)
			get(&f.various[t], "attention_various_"+name)
		}
	}
	return err
}
