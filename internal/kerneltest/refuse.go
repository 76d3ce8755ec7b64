package kerneltest

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Refusal is an op that must fail: Spoil makes one argument wrong, and the error must
// hold the op's name and all of Wants.
type Refusal struct {
	Op    string
	Spoil func(l *Layer)
	Wants []string
}

// Header is a refusal by what a header holds.
func Header(op string, spoil func(h *kernels.Header), wants ...string) Refusal {
	return Refusal{op, func(l *Layer) { spoil(l.Header) }, wants}
}

// foreign is a buffer of no device.
type foreign struct{ device.Buffer }

func (foreign) Bytes() []byte { return nil }

type strangeWeight struct{ kernels.Weight }

type strangeCache struct{ kernels.Cache }

// Refuse tests what ops say of wrong arguments, and that they then do nothing.
func Refuse(t *testing.T, b Backend) {
	b.run(t,
		part{"Arguments", refuseArguments},
		part{"HeadersThatDiffer", refuseHeadersThatDiffer},
		part{"WhatWasFreed", refuseWhatWasFreed},
		part{"AfterAFailure", refuseAfterAFailure})
}

// Whatever is wrong with an op's arguments is an error that names the op and
// says the numbers, and leaves the queue as good as before.
func refuseArguments(t *testing.T, b Backend) {
	r := b.Rig(t)
	good := NewLayer(r, kernels.F16, narrow)
	for _, c := range append(refusals(), b.Refusals...) {
		l := good.Clone()
		before := string(l.Header.Encode())
		c.Spoil(l)
		if string(l.Header.Encode()) != before {
			l.Rows.Buf = r.Rows(l.Header).Buf
		}
		err := r.Try(l.Ops()[c.Op])
		require.Error(t, err, "%s %v", c.Op, c.Wants)
		for _, want := range append(c.Wants, c.Op+":") {
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, r.Try(good.Ops()[c.Op]), "after %v", err)
	}
}

// refusals are those in words that all backends share.
func refusals() []Refusal {
	type header = *kernels.Header
	return []Refusal{
		{"Embed", func(l *Layer) { l.X.Buf = nil }, []string{"dst", "no buffer"}},
		{"Embed", func(l *Layer) { l.X.Buf = foreign{l.X.Buf} }, []string{"dst", "can't reach"}},
		{"Embed", func(l *Layer) { l.X.Cols-- }, []string{"dst", "[40, 255]", "[40, 256]"}},
		{"Embed", func(l *Layer) { l.X.Type = kernels.F16 }, []string{"dst", "F16", "F32"}},
		{"Embed", func(l *Layer) { l.Table = nil }, []string{"table"}},
		{"Embed", func(l *Layer) { l.Table = strangeWeight{} }, []string{"table", "strangeWeight"}},
		Header("Embed", func(h header) { h.Tokens[7] = 100 }, "row 7", "token 100", "table has 100"),
		Header("Embed", func(h header) { h.Tokens[7] = -1 }, "row 7", "token -1"),
		{"Embed", func(l *Layer) { l.Rows.N++ }, []string{"41 rows", "40"}},
		{"StoreKV", func(l *Layer) { l.Rows.Outputs = 1 }, []string{"40 rows, 2 outputs"}},
		{"Embed", func(l *Layer) { l.Rows.Pages = math.MaxInt }, []string{"table words", "larger than its buffer"}},
		{"Embed", func(l *Layer) { l.Rows.Outputs = -1 }, []string{"-1 outputs"}},
		{"Embed", func(l *Layer) { l.Rows.Pages = 50 }, []string{"50 table words", "larger than its buffer of 528 bytes"}},
		{"Embed", func(l *Layer) { l.Rows.Buf = nil }, []string{"header", "no buffer"}},
		{"Embed", func(l *Layer) { l.Rows.Buf = foreign{l.Rows.Buf} }, []string{"header", "can't reach"}},

		{"RMSNorm", func(l *Layer) { l.X.Off = -4 }, []string{"x begins at byte -4"}},
		{"RMSNorm", func(l *Layer) { l.X.Off = 2 }, []string{"x begins at byte 2"}},
		{"RMSNorm", func(l *Layer) { l.X.Off = 1 << 40 }, []string{"x begins at byte 1099511627776"}},
		{"RMSNorm", func(l *Layer) { l.X.Off += 4 * narrow }, []string{"x of shape [40, 256]", "larger than its buffer"}},
		{"RMSNorm", func(l *Layer) { l.X.Rows, l.Y.Rows = math.MaxInt, math.MaxInt }, []string{"larger than its buffer"}},
		{"RMSNorm", func(l *Layer) { l.X.Rows = -1 }, []string{"x is of shape [-1, 256]"}},
		{"RMSNorm", func(l *Layer) { l.X.Cols = 0 }, []string{"x is of shape [40, 0]"}},
		{"RMSNorm", func(l *Layer) { l.Y.Rows = 39 }, []string{"dst", "[39, 256]", "[40, 256]"}},
		{"RMSNorm", func(l *Layer) { l.Gain = l.Whole }, []string{"gain", "[64, 256] of BF16", "[1, 256]"}},
		{"RMSNorm", func(l *Layer) { l.Gain = l.Rotation.Frequencies }, []string{"gain", "[1, 16]", "[1, 256]"}},

		{"MatMul", func(l *Layer) { l.Products[1].W = l.Rotation.Frequencies }, []string{"x has 256 columns", "weight 1", "16"}},
		{"MatMul", func(l *Layer) { l.Products[1].Dst.Cols = 127 }, []string{"dst", "[40, 127]", "[40, 64]"}},
		{"MatMul", func(l *Layer) { l.Products[0].Dst = l.X }, []string{"dst of product 0", "over x"}},
		{"MatMul", func(l *Layer) { l.Products[2].W = nil }, []string{"weight"}},
		{"MatMul", func(l *Layer) { l.X.Buf = foreign{l.X.Buf} }, []string{"x lies in"}},
		{"MatMul", func(l *Layer) { l.X.Rows = math.MaxInt }, []string{"x of shape", "larger than its buffer"}},

		{"RoPE", func(l *Layer) { l.Rotation.HeadDim = 0 }, []string{"heads of 0"}},
		{"RoPE", func(l *Layer) { l.Rotation.HeadDim = 63 }, []string{"256 columns", "63"}},
		{"RoPE", func(l *Layer) { l.Rotation.HeadDim = 16 }, []string{"16 frequencies", "32", "head has 16"}},
		{"RoPE", func(l *Layer) { l.Rotation.Frequencies = nil }, []string{"frequencies"}},
		Header("RoPE", func(h header) { h.Positions[5] = -2 }, "row 5", "position -2"),

		{"StoreKV", func(l *Layer) { l.Cache = nil }, []string{"cache"}},
		{"StoreKV", func(l *Layer) { l.Cache = strangeCache{} }, []string{"cache", "strangeCache"}},
		{"StoreKV", func(l *Layer) { l.K.Cols = 63 }, []string{"k", "[40, 63]", "[40, 64]"}},
		Header("StoreKV", func(h header) { h.Positions[5] = -2 }, "row 5", "position -2"),
		Header("StoreKV", func(h header) { h.Positions[5] = 64 }, "row 5", "word 2", "have 2"),
		Header("StoreKV", func(h header) { h.Positions[5] = math.MaxInt32 }, "row 5", "word 67108863", "have 2"),
		Header("StoreKV", func(h header) { h.Tables[5] = -1 }, "row 5", "word -1"),
		Header("StoreKV", func(h header) { h.Tables[5] = math.MaxInt32 }, "row 5", "word 2147483647"),
		Header("StoreKV", func(h header) { h.Positions[5], h.Tables[5] = 70, math.MaxInt32 }, "row 5", "have 2"),
		Header("StoreKV", func(h header) { h.Pages[1] = 3 }, "page 3 of a cache"),
		Header("StoreKV", func(h header) { h.Pages[1] = -3 }, "page -3"),
		{"StoreKV", func(l *Layer) { l.Rows.Base = 1 }, []string{"page 2"}},
		{"StoreKV", func(l *Layer) { l.Rows.Base = math.MaxInt }, []string{"9223372036854775807", "cache of 3"}},
		{"StoreKV", func(l *Layer) { l.Rows.Base = -1 }, []string{"page numbers begin at -1"}},
		{"StoreKV", func(l *Layer) { l.Header.Pages[0] = -1; l.Rows.Base = 1 }, []string{"page -1"}},

		{"Attention", func(l *Layer) { l.Cache = nil }, []string{"cache"}},
		{"Attention", func(l *Layer) { l.Rows.Base = 1 }, []string{"page 2"}},
		{"Attention", func(l *Layer) { l.Header.Pages[0] = -1; l.Rows.Base = 2 }, []string{"page -1"}},
		{"Attention", func(l *Layer) { l.Y.Cols = 128 }, []string{"dst", "[40, 128]"}},
		{"Attention", func(l *Layer) { l.Q.Cols, l.Y.Cols = 128+1, 128+1 }, []string{"q has 129 columns", "32", "2"}},
		{"Attention", func(l *Layer) { l.Q.Cols, l.Y.Cols = 1, 1 }, []string{"q has 1 columns", "32", "2"}},
		Header("Attention", func(h header) { h.Positions[0] = -2 }, "row 0", "position -2"),
		Header("Attention", func(h header) { h.Positions[5] = math.MaxInt32 }, "row 5", "have 2"),
		Header("Attention", func(h header) { h.Tables[39] = 1 }, "row 39", "word 2", "have 2"),
		Header("Attention", func(h header) { h.Tables[39] = math.MinInt32 }, "row 39"),
		Header("Attention", func(h header) { h.Pages[0] = 9 }, "page 9 of a cache"),

		{"Attention", func(l *Layer) { l.Attention.Window = -1 }, []string{"Window of -1"}},
		{"Attention", func(l *Layer) { l.Attention.SoftCap = -1 }, []string{"SoftCap of -1"}},
		{"Attention", func(l *Layer) { l.Attention.SoftCap = NaN }, []string{"SoftCap of NaN"}},
		{"Attention", func(l *Layer) { l.Attention.Sinks = l.Gain }, []string{"Sinks", "[1, 256]", "[1, 8]"}},
		{"Attention", func(l *Layer) { l.Attention.Slopes = l.Whole }, []string{"Slopes", "[64, 256]", "[1, 8]"}},
		{"Attention", func(l *Layer) { l.Attention.Slopes = strangeWeight{} }, []string{"Slopes", "strangeWeight"}},

		{"LayerNorm", func(l *Layer) { l.X.Cols = 0 }, []string{"x is of shape [40, 0]"}},
		{"LayerNorm", func(l *Layer) { l.Y.Rows = 39 }, []string{"dst", "[39, 256]", "[40, 256]"}},
		{"LayerNorm", func(l *Layer) { l.Gain = nil }, []string{"gain"}},
		{"LayerNorm", func(l *Layer) { l.Bias = l.Rotation.Frequencies }, []string{"bias", "[1, 16]", "[1, 256]"}},

		{"Activate", func(l *Layer) { l.Function = 0 }, []string{"activation 0", "SiLU"}},
		{"Activate", func(l *Layer) { l.Y.Cols-- }, []string{"dst", "[40, 255]", "[40, 256]"}},
		{"Gated", func(l *Layer) { l.Gate.Cols-- }, []string{"up", "[40, 256]", "[40, 255]"}},
		{"Gated", func(l *Layer) { l.Function = 99 }, []string{"activation 99"}},
		{"Scale", func(l *Layer) { l.Y.Type = kernels.I32 }, []string{"x", "I32", "F32"}},
		{"SoftCap", func(l *Layer) { l.Most = 0 }, []string{"cap of 0"}},
		{"SoftCap", func(l *Layer) { l.Most = inf }, []string{"cap of +Inf"}},
		{"SoftCap", func(l *Layer) { l.Y.Buf = nil }, []string{"x", "no buffer"}},
		{"AddBias", func(l *Layer) { l.Bias = l.Whole }, []string{"bias", "[64, 256] of BF16", "[1, 256]"}},
		{"AddBias", func(l *Layer) { l.Y.Rows = -1 }, []string{"x is of shape [-1, 256]"}},
		{"Add", func(l *Layer) { l.X.Rows-- }, []string{"x", "[39, 256]", "[40, 256]"}},

		{"Gather", func(l *Layer) { l.Outputs.Rows = 1 }, []string{"dst", "[1, 256]", "[2, 256]"}},
		{"Gather", func(l *Layer) { l.Outputs = l.Y.First(2) }, []string{"dst lies over src"}},
		Header("Gather", func(h header) { h.Outputs[1] = 40 }, "output 1", "row 40 of 40"),
		Header("Gather", func(h header) { h.Outputs[1] = -1 }, "output 1", "row -1 of 40"),
		{"ArgMax", func(l *Layer) { l.Best.Type = kernels.F32 }, []string{"dst", "F32", "I32"}},
		{"ArgMax", func(l *Layer) { l.Best.Rows = 39 }, []string{"dst", "[39, 1]", "[40, 1]"}},
		{"TopK", func(l *Layer) { l.IDs.Type = kernels.F32 }, []string{"ids", "F32", "I32"}},
		{"TopK", func(l *Layer) { l.Values.Cols = 39 }, []string{"values", "[40, 39]", "[40, 40]"}},
		{"TopK", func(l *Layer) { l.IDs.Rows = 39 }, []string{"ids", "[39, 40]", "[40, 40]"}},
		{"TopK", func(l *Layer) { l.Values.Buf, l.Values.Off = l.X.Buf, l.X.Off }, []string{"ids or values lie over x"}},
		{"TopK", func(l *Layer) {
			l.IDs, l.Values = l.Y, l.Gate
			l.IDs.Rows, l.IDs.Cols, l.IDs.Type, l.Values.Rows, l.Values.Cols = 1, 257, kernels.I32, 1, 257
			l.X.Rows = 1
		}, []string{"the 257 largest", "at most 256"}},
	}
}

// What the host says of a batch and what its header says are compared by each op that
// goes by the header.
func refuseHeadersThatDiffer(t *testing.T, b Backend) {
	r := b.Rig(t)
	good := NewLayer(r, kernels.F16, narrow)
	for _, op := range []string{"Embed", "RoPE", "StoreKV", "Attention", "Gather"} {
		l := good.Clone()
		words := append([]byte(nil), l.Header.Encode()...)
		le.PutUint32(words, 39)
		buf := r.Alloc(int64(len(words)))
		r.Run(func(q kernels.Queue) { q.Upload(buf, 0, words) })
		l.Rows.Buf = buf
		require.ErrorContains(t, r.Try(l.Ops()[op]), op+": the header holds 39 rows, 2 outputs and 2 table words")
	}
}

func refuseWhatWasFreed(t *testing.T, b Backend) {
	r := b.Rig(t)
	l := NewLayer(r, kernels.F16, narrow)
	require.NoError(t, l.Cache.Free())
	require.ErrorContains(t, r.Try(l.Ops()["Attention"]), "freed")
	require.ErrorContains(t, r.Try(l.Ops()["StoreKV"]), "freed")
	require.NoError(t, l.Square.Free())
	require.ErrorContains(t, r.Try(l.Ops()["MatMul"]), "[256, 256] of Q8_0 has been freed")
	require.NoError(t, l.X.Buf.Free())
	require.ErrorContains(t, r.Try(l.Ops()["Add"]), "freed")
}

// After a failure, the ops up to the next Record do nothing, and Pack says why.
func refuseAfterAFailure(t *testing.T, b Backend) {
	r := b.Rig(t)
	l := NewLayer(r, kernels.F16, narrow)
	fail := func() { r.Q.(interface{ Fail(error) }).Fail(errors.New("earlier")) }
	all := func() []float32 { return append(append(r.Read(l.Y), r.Read(l.X)...), r.Read(l.Q)...) }
	before := all()
	for name, op := range l.Ops() {
		err := r.Try(func(q kernels.Queue) {
			fail()
			op(q)
		})
		require.EqualError(t, err, "earlier", name)
		SameBits(t, before, all(), "%s", name)
	}
	err := r.Try(func(q kernels.Queue) {
		fail()
		_, err := q.Pack(t.Context(), kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 1, Cols: 1, Data: make([]byte, 4)})
		require.ErrorContains(t, err, "earlier")
	})
	require.EqualError(t, err, "earlier")
}
