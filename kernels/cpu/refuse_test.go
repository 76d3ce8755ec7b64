package cpu

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// far is a buffer that the host can't reach.
type far struct{ device.Buffer }

func (far) Bytes() []byte { return nil }

type strangeWeight struct{ kernels.Weight }

type strangeCache struct{ kernels.Cache }

// Whatever is wrong with an op's arguments is an error that names the op and
// says the numbers, and leaves the queue as good as before.
func TestOpsRefuse(t *testing.T) {
	r := newRig(t, 0)
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
		{"Embed", func(l *layer) { l.x.Buf = far{l.x.Buf} }, []string{"dst", "can't reach"}},
		{"Embed", func(l *layer) { l.x.Cols-- }, []string{"dst", "[40, 511]", "[40, 512]"}},
		{"Embed", func(l *layer) { l.x.Type = kernels.F16 }, []string{"dst", "F16", "F32"}},
		{"Embed", func(l *layer) { l.table = nil }, []string{"table"}},
		{"Embed", func(l *layer) { l.table = strangeWeight{} }, []string{"table", "strangeWeight"}},
		{"Embed", func(l *layer) { header(l, func(h *kernels.Header) { h.Tokens[7] = 100 }) }, []string{"row 7", "token 100", "table has 100"}},
		{"Embed", func(l *layer) { header(l, func(h *kernels.Header) { h.Tokens[7] = -1 }) }, []string{"row 7", "token -1"}},
		{"Embed", func(l *layer) { l.rows.N++ }, []string{"41 rows", "40"}},
		{"Embed", func(l *layer) { l.rows.Outputs = 1 }, []string{"40 rows, 2 outputs"}},
		{"Embed", func(l *layer) { l.rows.Pages = math.MaxInt }, []string{"table words", "larger than its buffer"}},
		{"Embed", func(l *layer) { l.rows.Outputs = -1 }, []string{"-1 outputs"}},
		{"Embed", func(l *layer) { l.rows.Pages = 50 }, []string{"50 table words", "larger than its buffer of 528 bytes"}},
		{"Embed", func(l *layer) { l.rows.Buf = nil }, []string{"header", "no buffer"}},
		{"Embed", func(l *layer) { l.rows.Buf = far{l.rows.Buf} }, []string{"header", "can't reach"}},

		{"RMSNorm", func(l *layer) { l.x.Off = -4 }, []string{"x begins at byte -4"}},
		{"RMSNorm", func(l *layer) { l.x.Off = 2 }, []string{"x begins at byte 2"}},
		{"RMSNorm", func(l *layer) { l.x.Off = 1 << 40 }, []string{"x begins at byte 1099511627776"}},
		{"RMSNorm", func(l *layer) { l.x.Off += 4 * 512 }, []string{"x of shape [40, 512]", "larger than its buffer"}},
		{"RMSNorm", func(l *layer) { l.x.Rows, l.y.Rows = math.MaxInt, math.MaxInt }, []string{"larger than its buffer"}},
		{"RMSNorm", func(l *layer) { l.x.Rows = -1 }, []string{"x is of shape [-1, 512]"}},
		{"RMSNorm", func(l *layer) { l.x.Cols = 0 }, []string{"x is of shape [40, 0]"}},
		{"RMSNorm", func(l *layer) { l.y.Rows = 39 }, []string{"dst", "[39, 512]", "[40, 512]"}},
		{"RMSNorm", func(l *layer) { l.gain = l.whole }, []string{"gain", "[128, 512] of BF16", "[1, 512]"}},
		{"RMSNorm", func(l *layer) { l.gain = l.rotation.Frequencies }, []string{"gain", "[1, 32]", "[1, 512]"}},

		{"MatMul", func(l *layer) { l.products[1].W = l.rotation.Frequencies }, []string{"x has 512 columns", "weight 1", "32"}},
		{"MatMul", func(l *layer) { l.products[1].Dst.Cols = 127 }, []string{"dst", "[40, 127]", "[40, 128]"}},
		{"MatMul", func(l *layer) { l.products[0].Dst = l.x }, []string{"dst of product 0", "over x"}},
		{"MatMul", func(l *layer) { l.products[2].W = (*weight)(nil) }, []string{"weight"}},
		{"MatMul", func(l *layer) { l.x.Buf = far{l.x.Buf} }, []string{"x lies in"}},

		{"RoPE", func(l *layer) { l.rotation.HeadDim = 0 }, []string{"heads of 0"}},
		{"RoPE", func(l *layer) { l.rotation.HeadDim = 63 }, []string{"512 columns", "63"}},
		{"RoPE", func(l *layer) { l.rotation.HeadDim = 32 }, []string{"32 frequencies", "64", "head has 32"}},
		{"RoPE", func(l *layer) { l.rotation.Frequencies = nil }, []string{"frequencies"}},
		{"RoPE", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = -2 }) }, []string{"row 5", "position -2"}},

		{"StoreKV", func(l *layer) { l.cache = nil }, []string{"cache"}},
		{"StoreKV", func(l *layer) { l.cache = strangeCache{} }, []string{"cache", "strangeCache"}},
		{"StoreKV", func(l *layer) { l.k.Cols = 127 }, []string{"k", "[40, 127]", "[40, 128]"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = -2 }) }, []string{"row 5", "position -2"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = 64 }) }, []string{"row 5", "position 64", "word 2", "have 2"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Tables[5] = -1 }) }, []string{"row 5", "word -1"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[1] = 3 }) }, []string{"row 32", "page 3", "cache of 3"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[1] = -3 }) }, []string{"row 32", "page -3"}},

		{"StoreKV", func(l *layer) { l.rows.Base = 1 }, []string{"row 0", "page 2 from page 1 on", "cache of 3"}},
		{"StoreKV", func(l *layer) { l.rows.Base = math.MaxInt }, []string{"row 0", "page 2 from page", "cache of 3"}},
		{"StoreKV", func(l *layer) { l.rows.Base = -1 }, []string{"page numbers begin at -1"}},
		{"StoreKV", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[0] = -1 }); l.rows.Base = 1 }, []string{"page -1"}},

		{"Attention", func(l *layer) { l.cache = nil }, []string{"cache"}},
		{"Attention", func(l *layer) { l.rows.Base = 1 }, []string{"page 2 from page 1 on", "cache of 3"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[0] = -1 }); l.rows.Base = 2 }, []string{"page -1"}},
		{"Attention", func(l *layer) { l.y.Cols = 256 }, []string{"dst", "[40, 256]"}},
		{"Attention", func(l *layer) { l.q, l.y = l.products[2].Dst, l.products[2].Dst }, []string{"q has 1 columns", "64", "2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[0] = -2 }) }, []string{"row 0", "position -2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Positions[5] = math.MaxInt32 }) }, []string{"row 5", "position 2147483647", "have 2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Tables[39] = 1 }) }, []string{"row 39", "word 2", "have 2"}},
		{"Attention", func(l *layer) { header(l, func(h *kernels.Header) { h.Pages[0] = 9 }) }, []string{"page 9", "cache of 3"}},

		{"SwiGLU", func(l *layer) { l.gate.Cols-- }, []string{"up", "[40, 512]", "[40, 511]"}},
		{"Add", func(l *layer) { l.x.Rows-- }, []string{"x", "[39, 512]", "[40, 512]"}},

		{"Gather", func(l *layer) { l.outputs.Rows = 1 }, []string{"dst", "[1, 512]", "[2, 512]"}},
		{"Gather", func(l *layer) { l.outputs = l.y.First(2) }, []string{"dst lies over src"}},
		{"Gather", func(l *layer) { header(l, func(h *kernels.Header) { h.Outputs[1] = 40 }) }, []string{"output 1", "row 40 of 40"}},
		{"ArgMax", func(l *layer) { l.best.Type = kernels.F32 }, []string{"dst", "F32", "I32"}},
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

func TestOpsRefuseWhatWasFreed(t *testing.T) {
	r := newRig(t, 0)
	l := newLayer(r, kernels.F16)
	require.NoError(t, l.cache.Free())
	require.ErrorContains(t, r.try(l.ops()["Attention"]), "freed")
	require.ErrorContains(t, r.try(l.ops()["StoreKV"]), "freed")
	require.NoError(t, l.square.Free())
	require.ErrorContains(t, r.try(l.ops()["MatMul"]), "[512, 512] of Q8_0 has been freed")
	require.NoError(t, l.x.Buf.Free())
	require.ErrorContains(t, r.try(l.ops()["Add"]), "freed")
}

// After a failure, the ops up to the next Record do nothing.
func TestOpsAreSkippedAfterAFailure(t *testing.T) {
	r := newRig(t, 0)
	l := newLayer(r, kernels.F16)
	l.best = l.best.First(layerRows)
	own := r.q.(*queue)
	for name, op := range l.ops() {
		before := append(append(read(l.y), read(l.x)...), read(l.q)...)
		err := r.try(func(q kernels.Queue) {
			own.Fail(errors.New("earlier"))
			op(q)
		})
		require.EqualError(t, err, "earlier", name)
		sameBits(t, before, append(append(read(l.y), read(l.x)...), read(l.q)...), "%s", name)
	}
	own.Fail(errors.New("earlier"))
	_, err := r.q.Pack(t.Context(), kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 1, Cols: 1, Data: make([]byte, 4)})
	require.ErrorContains(t, err, "earlier")
	require.EqualError(t, own.Take(), "earlier")
}

// full is a device without memory to spare.
type full struct{ device.Device }

func (full) Alloc(int64) (device.Buffer, error) { return nil, errors.New("nothing left") }

func TestScratchThatCantBeHadIsAnError(t *testing.T) {
	var s scratch
	_, err := s.take(full{}, 100)
	require.ErrorContains(t, err, "nothing left")
	require.NoError(t, s.free())
}

// strange is a device whose queues are not of package device/cpu.
type strange struct{ device.Device }

type strangeQueue struct{ device.Queue }

func (strangeQueue) Close() error { return nil }

func (strange) Info() device.Info               { return device.Info{Name: "strange:0"} }
func (strange) NewQueue() (device.Queue, error) { return strangeQueue{}, nil }

// dated is a device of a SIMD level that there is none of.
type dated struct{ device.Device }

func (d dated) Info() device.Info {
	i := d.Device.Info()
	i.SIMD = "mmx"
	return i
}

func TestNewQueueRefuses(t *testing.T) {
	_, err := backend{}.NewQueue(strange{})
	require.ErrorContains(t, err, "strange:0")
	r := newRig(t, 1)
	_, err = backend{}.NewQueue(dated{r.q.Device()})
	require.ErrorContains(t, err, "mmx")
}
