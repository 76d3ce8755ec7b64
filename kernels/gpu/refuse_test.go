package gpu

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/kernels"
)

// hostBuffer is a buffer in the host's memory.
type hostBuffer struct{ device.Buffer }

type strangeWeight struct{ kernels.Weight }

type strangeCache struct{ kernels.Cache }

// Whatever is wrong with an op's arguments is an error that names the op and
// says the numbers, and leaves the queue as good as before. The words are those
// of the CPU's kernels, but for what only a row's own words could tell.
func TestOpsRefuse(t *testing.T) {
	r := onGPU(t)
	good := newLayer(r, kernels.F16)
	// header changes the header before it is encoded.
	header := func(l *layer, change func(h *kernels.Header)) {
		change(l.header)
		l.rows = r.rows(l.header)
	}
	for _, c := range []struct {
		op    string
		spoil func(l *layer)
		wants []string
	}{
		{"Embed", func(l *layer) { l.x.Buf = nil }, []string{"dst", "no buffer"}},
		{"Embed", func(l *layer) { l.x.Buf = hostBuffer{l.x.Buf} }, []string{"dst", "cuda:0 can't reach"}},
		{"Embed", func(l *layer) { l.x.Cols-- }, []string{"dst", "[40, 255]", "[40, 256]"}},
		{"Embed", func(l *layer) { l.x.Type = kernels.F16 }, []string{"dst", "F16", "F32"}},
		{"Embed", func(l *layer) { l.table = nil }, []string{"table"}},
		{"Embed", func(l *layer) { l.table = strangeWeight{} }, []string{"table", "strangeWeight"}},
		{"Embed", func(l *layer) { header(l, func(h *kernels.Header) { h.Tokens[7] = 100 }) }, []string{"row 7", "token 100", "table has 100"}},
		{"Embed", func(l *layer) { header(l, func(h *kernels.Header) { h.Tokens[7] = -1 }) }, []string{"row 7", "token -1"}},
		{"Embed", func(l *layer) { l.rows.N++ }, []string{"41 rows", "40"}},
		{"StoreKV", func(l *layer) { l.rows.Outputs = 1 }, []string{"40 rows, 2 outputs"}},
		{"Embed", func(l *layer) { l.rows.Pages = math.MaxInt }, []string{"table words", "larger than its buffer"}},
		{"Embed", func(l *layer) { l.rows.Outputs = -1 }, []string{"-1 outputs"}},
		{"Embed", func(l *layer) { l.rows.Pages = 50 }, []string{"50 table words", "larger than its buffer of 528 bytes"}},
		{"Embed", func(l *layer) { l.rows.Buf = nil }, []string{"header", "no buffer"}},
		{"Embed", func(l *layer) { l.rows.Buf = hostBuffer{l.rows.Buf} }, []string{"header", "can't reach"}},

		{"RMSNorm", func(l *layer) { l.x.Off = -4 }, []string{"x begins at byte -4"}},
		{"RMSNorm", func(l *layer) { l.x.Off = 2 }, []string{"x begins at byte 2"}},
		{"RMSNorm", func(l *layer) { l.x.Off = 1 << 40 }, []string{"x begins at byte 1099511627776"}},
		{"RMSNorm", func(l *layer) { l.x.Off += 4 * layerWidth }, []string{"x of shape [40, 256]", "larger than its buffer"}},
		{"RMSNorm", func(l *layer) { l.x.Rows, l.y.Rows = math.MaxInt, math.MaxInt }, []string{"larger than its buffer"}},
		{"RMSNorm", func(l *layer) { l.x.Rows = -1 }, []string{"x is of shape [-1, 256]"}},
		{"RMSNorm", func(l *layer) { l.x.Cols = 0 }, []string{"x is of shape [40, 0]"}},
		{"RMSNorm", func(l *layer) { l.y.Rows = 39 }, []string{"dst", "[39, 256]", "[40, 256]"}},
		{"RMSNorm", func(l *layer) { l.gain = l.whole }, []string{"gain", "[64, 256] of BF16", "[1, 256]"}},
		{"RMSNorm", func(l *layer) { l.gain = l.rotation.Frequencies }, []string{"gain", "[1, 16]", "[1, 256]"}},

		{"RMSNorm", func(l *layer) { l.y = l.x; l.y.Off += 4 }, []string{"dst lies over a part of x"}},

		{"MatMul", func(l *layer) { l.products[1].W = l.rotation.Frequencies }, []string{"x has 256 columns", "weight 1", "16"}},
		{"MatMul", func(l *layer) { l.products[1].Dst.Cols = 127 }, []string{"dst", "[40, 127]", "[40, 64]"}},
		{"MatMul", func(l *layer) { l.products[0].Dst = l.x }, []string{"dst of product 0", "over x"}},
		{"MatMul", func(l *layer) { l.products[2].W = (*weight)(nil) }, []string{"weight"}},
		{"MatMul", func(l *layer) { l.x.Buf = hostBuffer{l.x.Buf} }, []string{"x lies in"}},
		{"MatMul", func(l *layer) { l.x.Rows = math.MaxInt }, []string{"x of shape", "larger than its buffer"}},

		{"RoPE", func(l *layer) { l.rotation.HeadDim = 0 }, []string{"heads of 0"}},
		{"RoPE", func(l *layer) { l.rotation.HeadDim = 63 }, []string{"256 columns", "63"}},
		{"RoPE", func(l *layer) { l.rotation.HeadDim = 16 }, []string{"16 frequencies", "32", "head has 16"}},
		{"RoPE", func(l *layer) { l.rotation.Frequencies = nil }, []string{"frequencies"}},
		{"RoPE", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = -2 }) }, []string{"row 5", "position -2"}},

		{"StoreKV", func(l *layer) { l.cache = nil }, []string{"cache"}},
		{"StoreKV", func(l *layer) { l.cache = strangeCache{} }, []string{"cache", "strangeCache"}},
		{"StoreKV", func(l *layer) { l.k.Cols = 63 }, []string{"k", "[40, 63]", "[40, 64]"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = -2 }) }, []string{"row 5", "position -2"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = 64 }) }, []string{"row 5", "word 2", "have 2"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = math.MaxInt32 }) }, []string{"row 5", "word 67108863", "have 2"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Tables[5] = -1 }) }, []string{"row 5", "word -1"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Tables[5] = math.MaxInt32 }) }, []string{"row 5", "word 2147483647"}},
		{"StoreKV", func(l *layer) {
			header(l, func(h *kernels.Header) { h.Positions[5], h.Tables[5] = 70, math.MaxInt32 })
		}, []string{"row 5", "word 2147483647", "have 2"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[1] = 3 }) }, []string{"page 3", "cache that has 3"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[1] = -3 }) }, []string{"page -3"}},

		{"StoreKV", func(l *layer) { l.rows.Base = 1 }, []string{"page 2", "has 2 for it"}},
		{"StoreKV", func(l *layer) { l.rows.Base = math.MaxInt }, []string{"page numbers begin at 9223372036854775807", "cache of 3"}},
		{"StoreKV", func(l *layer) { l.rows.Base = -1 }, []string{"page numbers begin at -1"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[0] = -1 }); l.rows.Base = 1 }, []string{"page -1"}},

		{"Attention", func(l *layer) { l.cache = nil }, []string{"cache"}},
		{"Attention", func(l *layer) { l.rows.Base = 1 }, []string{"page 2", "has 2 for it"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[0] = -1 }); l.rows.Base = 2 }, []string{"page -1"}},
		{"Attention", func(l *layer) { l.y.Cols = 128 }, []string{"dst", "[40, 128]"}},
		{"Attention", func(l *layer) { l.y = l.q }, []string{"dst lies over q"}},
		{"Attention", func(l *layer) { l.q, l.y = l.products[2].Dst, l.products[2].Dst }, []string{"dst lies over q"}},
		{"Attention", func(l *layer) { l.q.Cols, l.y.Cols = 128+1, 128+1 }, []string{"q has 129 columns", "32", "2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[0] = -2 }) }, []string{"row 0", "position -2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = math.MaxInt32 }) }, []string{"row 5", "have 2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Tables[39] = 1 }) }, []string{"row 39", "word 2", "have 2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Tables[39] = math.MinInt32 }) }, []string{"row 39"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[0] = 9 }) }, []string{"page 9", "cache that has 3"}},

		{"SwiGLU", func(l *layer) { l.gate.Cols-- }, []string{"up", "[40, 256]", "[40, 255]"}},
		{"SwiGLU", func(l *layer) { l.y = l.gate; l.y.Off -= 4 }, []string{"dst lies over a part of gate"}},
		{"SwiGLU", func(l *layer) { l.y = l.x; l.y.Off += 4 }, []string{"dst lies over a part of up"}},
		{"Add", func(l *layer) { l.y = l.x; l.y.Off += 4 }, []string{"dst lies over a part of x"}},
		{"Add", func(l *layer) { l.x.Rows-- }, []string{"x", "[39, 256]", "[40, 256]"}},

		{"Gather", func(l *layer) { l.outputs.Rows = 1 }, []string{"dst", "[1, 256]", "[2, 256]"}},
		{"Gather", func(l *layer) { l.outputs = l.y.First(2) }, []string{"dst lies over src"}},
		{"Gather", func(l *layer) { header(l, func(h *kernels.Header) { h.Outputs[1] = 40 }) }, []string{"output 1", "row 40 of 40"}},
		{"Gather", func(l *layer) { header(l, func(h *kernels.Header) { h.Outputs[1] = -1 }) }, []string{"output 1", "row -1 of 40"}},
		{"ArgMax", func(l *layer) { l.best.Type = kernels.F32 }, []string{"dst", "F32", "I32"}},
		{"ArgMax", func(l *layer) { l.best.Buf, l.best.Off = l.x.Buf, l.x.Off }, []string{"dst lies over x"}},
		{"ArgMax", func(l *layer) { l.best.Rows = 39 }, []string{"dst", "[39, 1]", "[40, 1]"}},
	} {
		l := good.clone()
		c.spoil(l)
		err := r.try(l.ops()[c.op])
		require.Error(t, err, "%s %v", c.op, c.wants)
		for _, want := range append(c.wants, c.op+":") {
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, r.try(good.ops()[c.op]), "after %v", err)
	}
}

// What the host says of a batch and what its header says are compared on the
// device by each op that goes by the header.
func TestHeadersThatDiffer(t *testing.T) {
	r := onGPU(t)
	good := newLayer(r, kernels.F16)
	for _, op := range []string{"Embed", "RoPE", "StoreKV", "Attention", "Gather"} {
		l := good.clone()
		words := append([]byte(nil), l.header.Encode()...)
		le.PutUint32(words, 39)
		b := r.alloc(int64(len(words)))
		r.run(func(q kernels.Queue) { q.Upload(b, 0, words) })
		l.rows.Buf = b
		err := r.try(l.ops()[op])
		require.ErrorContains(t, err, op+": the header holds 39 rows, 2 outputs and 2 table words")
	}
}

// A row that is wrong leaves the memory of others alone.
func TestWrongRowsTouchNothingElse(t *testing.T) {
	r := onGPU(t)
	for _, typ := range cacheTypes {
		l := newLayer(r, typ)
		r.run(l.ops()["StoreKV"])
		right := r.bytesOfCache(l.cache)
		l.header.Positions[4], l.header.Tables[9], l.header.Positions[39] = -1, 77, 1<<30
		l.rows = r.rows(l.header)
		require.Error(t, r.try(l.ops()["StoreKV"]))
		require.Equal(t, right, r.bytesOfCache(l.cache), "the other rows are stored where they were")
		r.read(l.k)
		want := r.read(l.x)
		l.header.Tokens[6] = 1 << 30
		l.rows = r.rows(l.header)
		require.NoError(t, r.try(newLayer(r, typ).ops()["Embed"]))
		require.Error(t, r.try(l.ops()["Embed"]))
		require.Len(t, r.read(l.x), len(want)) // read looks at the margins
	}
}

func TestOpsRefuseWhatWasFreed(t *testing.T) {
	r := onGPU(t)
	l := newLayer(r, kernels.F16)
	require.NoError(t, l.cache.Free())
	require.ErrorContains(t, r.try(l.ops()["Attention"]), "freed")
	require.ErrorContains(t, r.try(l.ops()["StoreKV"]), "freed")
	require.NoError(t, l.square.Free())
	require.ErrorContains(t, r.try(l.ops()["MatMul"]), "[256, 256] of Q8_0 has been freed")
	require.NoError(t, l.x.Buf.Free())
	require.ErrorContains(t, r.try(l.ops()["Add"]), "freed")
}

// What lies on another GPU is not this one's.
func TestOpsRefuseAnotherDevice(t *testing.T) {
	machine(t, emulator.Machine{GPUs: 2})
	r, other := rigOn(t, open(t, "cuda:0")), newLayer(rigOn(t, open(t, "cuda:1")), kernels.F16)
	good := newLayer(r, kernels.F16)
	for _, c := range []struct {
		op    string
		spoil func(l *layer)
		want  string
	}{
		{"Add", func(l *layer) { l.x = other.x }, "Add: x lies in a buffer that cuda:0 can't reach"},
		{"Embed", func(l *layer) { l.rows = other.rows }, "Embed: the header lies in a buffer that cuda:0 can't reach"},
		{"Embed", func(l *layer) { l.table = other.table }, "Embed: the table [100, 256] of F16 lies on cuda:1, the op is on cuda:0"},
		{"RMSNorm", func(l *layer) { l.gain = other.gain }, "RMSNorm: the gain [1, 256] of F32 lies on cuda:1"},
		{"MatMul", func(l *layer) { l.products[1].W = other.whole }, "lies on cuda:1"},
		{"StoreKV", func(l *layer) { l.cache = other.cache }, "StoreKV: the cache lies on cuda:1, the op is on cuda:0"},
		{"Attention", func(l *layer) { l.cache = other.cache }, "lies on cuda:1"},
	} {
		l := good.clone()
		c.spoil(l)
		require.ErrorContains(t, r.try(l.ops()[c.op]), c.want)
	}
}

// After a failure, the ops up to the next Record do nothing.
func TestOpsAreSkippedAfterAFailure(t *testing.T) {
	r := onGPU(t)
	l := newLayer(r, kernels.F16)
	own := r.q.(*queue)
	all := func() []float32 { return append(append(r.read(l.y), r.read(l.x)...), r.read(l.q)...) }
	before := all()
	for name, op := range l.ops() {
		err := r.try(func(q kernels.Queue) {
			own.Fail(errors.New("earlier"))
			op(q)
		})
		require.ErrorContains(t, err, "earlier", name)
		sameBits(t, before, all(), "%s", name)
	}
	r.q.Begin()
	own.Fail(errors.New("earlier"))
	_, err := r.q.Pack(t.Context(), kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 1, Cols: 1, Data: make([]byte, 4)})
	require.ErrorContains(t, err, "earlier")
	r.q.Record(r.ready)
	r.q.End()
	require.ErrorContains(t, r.ready.Wait(t.Context()), "earlier")
}

// big is a buffer that says it is larger than it is.
type big struct{ device.Addressable }

func (big) Size() int64 { return 1 << 50 }

// Shapes that a kernel's 32 bits don't hold are refused before anything is
// launched, whatever the memory.
func TestShapesBeyondAKernelAreRefused(t *testing.T) {
	r := onGPU(t)
	l := newLayer(r, kernels.F16)
	huge := func(rows, cols int) kernels.Tensor {
		return kernels.Tensor{Buf: big{l.x.Buf.(device.Addressable)}, Rows: rows, Cols: cols, Type: kernels.F32}
	}
	for _, c := range []struct{ rows, cols int }{{1 << 16, 1 << 15}, {1, math.MaxInt32}, {1 << 31, 1}, {1<<31 - 255, 1}, {1 << 23, 1 << 23}} {
		x := huge(c.rows, c.cols)
		for name, op := range map[string]func(q kernels.Queue){
			"RMSNorm":   func(q kernels.Queue) { q.RMSNorm(x, x, l.gain, 1e-5) },
			"MatMul":    func(q kernels.Queue) { q.MatMul(x, l.products) },
			"SwiGLU":    func(q kernels.Queue) { q.SwiGLU(x, x, x) },
			"Add":       func(q kernels.Queue) { q.Add(x, x) },
			"ArgMax":    func(q kernels.Queue) { q.ArgMax(l.best, x) },
			"Attention": func(q kernels.Queue) { q.Attention(l.y, x, l.cache, 1, l.rows) },
		} {
			require.ErrorContains(t, r.try(op), "use fewer rows a batch", "%s %v", name, c)
		}
	}
	tall := huge(mostBlocks*tileRows+1, 256)
	require.ErrorContains(t, r.try(func(q kernels.Queue) { q.MatMul(tall, l.products) }), "a GPU's product takes up to 2097120")
	wide := huge(1, 2*32*(mostBlocks+1))
	require.ErrorContains(t, r.try(func(q kernels.Queue) { q.Attention(wide, wide, l.cache, 1, l.rows) }), "Attention:")
}

// strange is a device that runs no programs.
type strange struct{ device.Device }

func (strange) Info() device.Info { return device.Info{Name: "strange:0"} }

// deaf is a device whose queues launch nothing.
type deaf struct{ device.Programmable }

type deafQueue struct{ device.Queue }

func (d deaf) NewQueue() (device.Queue, error) {
	q, err := d.Programmable.NewQueue()
	return deafQueue{q}, err
}

func TestNewQueueRefuses(t *testing.T) {
	ops, err := kernels.For(device.CUDA)
	require.NoError(t, err)
	_, err = ops.NewQueue(strange{})
	require.ErrorContains(t, err, "strange:0 doesn't run compiled programs")
	r := onGPU(t)
	_, err = ops.NewQueue(deaf{r.q.Device().(device.Programmable)})
	require.ErrorContains(t, err, "cuda:0 has no queue that launches programs")
}
