package gpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// refusals are in the kernels' words: whichever row is found wrong first is named.
var refusals = []kerneltest.Refusal{
	{Op: "Embed", Spoil: func(l *kerneltest.Layer) { l.X.Buf = hostBuffer{l.X.Buf} }, Wants: []string{"dst", "cuda:0 can't reach"}},
	{Op: "MatMul", Spoil: func(l *kerneltest.Layer) { l.Products[2].W = (*weight)(nil) }, Wants: []string{"weight"}},
	kerneltest.Header("StoreKV", func(h *kernels.Header) { h.Positions[5], h.Tables[5] = 70, math.MaxInt32 }, "row 5", "word 2147483647", "have 2"),
	kerneltest.Header("StoreKV", func(h *kernels.Header) { h.Pages[1] = 3 }, "page 3", "cache that has 3"),
	{Op: "StoreKV", Spoil: func(l *kerneltest.Layer) { l.Rows.Base = 1 }, Wants: []string{"page 2", "has 2 for it"}},
	{Op: "StoreKV", Spoil: func(l *kerneltest.Layer) { l.Rows.Base = math.MaxInt }, Wants: []string{"page numbers begin at 9223372036854775807", "cache of 3"}},
	{Op: "Attention", Spoil: func(l *kerneltest.Layer) { l.Rows.Base = 1 }, Wants: []string{"page 2", "has 2 for it"}},
	{Op: "Attention", Spoil: func(l *kerneltest.Layer) { l.Y = l.Q }, Wants: []string{"dst lies over q"}},
	{Op: "Attention", Spoil: func(l *kerneltest.Layer) { l.Q, l.Y = l.Products[2].Dst, l.Products[2].Dst }, Wants: []string{"dst lies over q"}},
	kerneltest.Header("Attention", func(h *kernels.Header) { h.Pages[0] = 9 }, "page 9", "cache that has 3"),

	{Op: "RMSNorm", Spoil: func(l *kerneltest.Layer) { l.Y = l.X; l.Y.Off += 4 }, Wants: []string{"dst lies over a part of x"}},
	{Op: "Gated", Spoil: func(l *kerneltest.Layer) { l.Y = l.Gate; l.Y.Off -= 4 }, Wants: []string{"dst lies over a part of gate"}},
	{Op: "Gated", Spoil: func(l *kerneltest.Layer) { l.Y = l.X; l.Y.Off += 4 }, Wants: []string{"dst lies over a part of up"}},
	{Op: "Add", Spoil: func(l *kerneltest.Layer) { l.Y = l.X; l.Y.Off += 4 }, Wants: []string{"dst lies over a part of x"}},
	{Op: "ArgMax", Spoil: func(l *kerneltest.Layer) { l.Best.Buf, l.Best.Off = l.X.Buf, l.X.Off }, Wants: []string{"dst lies over x"}},
}

// hostBuffer is a buffer in the host's memory.
type hostBuffer struct{ device.Buffer }

// What lies on another GPU is not this one's.
func TestOpsRefuseAnotherDevice(t *testing.T) {
	machine(t, emulator.Machine{GPUs: 2})
	r := gpu.On(t, kerneltest.Open(t, "cuda:0"))
	other := kerneltest.NewLayer(gpu.On(t, kerneltest.Open(t, "cuda:1")), kernels.F16, 256)
	good := kerneltest.NewLayer(r, kernels.F16, 256)
	for _, c := range []struct {
		op    string
		spoil func(l *kerneltest.Layer)
		want  string
	}{
		{"Add", func(l *kerneltest.Layer) { l.X = other.X }, "Add: x lies in a buffer that cuda:0 can't reach"},
		{"Embed", func(l *kerneltest.Layer) { l.Rows = other.Rows }, "Embed: the header lies in a buffer that cuda:0 can't reach"},
		{"Embed", func(l *kerneltest.Layer) { l.Table = other.Table }, "Embed: the table [100, 256] of F16 lies on cuda:1, the op is on cuda:0"},
		{"RMSNorm", func(l *kerneltest.Layer) { l.Gain = other.Gain }, "RMSNorm: the gain [1, 256] of F32 lies on cuda:1"},
		{"MatMul", func(l *kerneltest.Layer) { l.Products[1].W = other.Whole }, "lies on cuda:1"},
		{"StoreKV", func(l *kerneltest.Layer) { l.Cache = other.Cache }, "StoreKV: the cache lies on cuda:1, the op is on cuda:0"},
		{"Attention", func(l *kerneltest.Layer) { l.Cache = other.Cache }, "lies on cuda:1"},
	} {
		l := good.Clone()
		c.spoil(l)
		require.ErrorContains(t, r.Try(l.Ops()[c.op]), c.want)
	}
}

// big is a buffer that says it is larger than it is.
type big struct{ device.Addressable }

func (big) Size() int64 { return 1 << 50 }

// Shapes that a kernel's 32 bits don't hold are refused before anything is
// launched, whatever the memory.
func TestShapesBeyondAKernelAreRefused(t *testing.T) {
	r := gpu.Rig(t)
	l := kerneltest.NewLayer(r, kernels.F16, 256)
	huge := func(rows, cols int) kernels.Tensor {
		return kernels.Tensor{Buf: big{l.X.Buf.(device.Addressable)}, Rows: rows, Cols: cols, Type: kernels.F32}
	}
	for _, c := range []struct{ rows, cols int }{{1 << 16, 1 << 15}, {1, math.MaxInt32}, {1 << 31, 1}, {1<<31 - 255, 1}, {1 << 23, 1 << 23}} {
		x := huge(c.rows, c.cols)
		for name, op := range map[string]func(q kernels.Queue){
			"RMSNorm":   func(q kernels.Queue) { q.RMSNorm(x, x, kernels.NormSpec{Gain: l.Gain, Eps: 1e-5}) },
			"MatMul":    func(q kernels.Queue) { q.MatMul(x, l.Products) },
			"Gated":     func(q kernels.Queue) { q.Gated(x, x, x, kernels.SiLU) },
			"Add":       func(q kernels.Queue) { q.Add(x, x) },
			"ArgMax":    func(q kernels.Queue) { q.ArgMax(l.Best, x) },
			"Attention": func(q kernels.Queue) { q.Attention(l.Y, x, l.Cache, kernels.AttentionSpec{Scale: 1}, l.Rows) },
		} {
			require.ErrorContains(t, r.Try(op), "use fewer rows a batch", "%s %v", name, c)
		}
	}
	tall := huge(mostBlocks*tileRows+1, 256)
	require.ErrorContains(t, r.Try(func(q kernels.Queue) { q.MatMul(tall, l.Products) }), "a GPU's product takes up to 2097120")
	wide := huge(1, 2*32*(mostBlocks+1))
	require.ErrorContains(t, r.Try(func(q kernels.Queue) { q.Attention(wide, wide, l.Cache, kernels.AttentionSpec{Scale: 1}, l.Rows) }), "Attention:")
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
	r := gpu.Rig(t)
	_, err = ops.NewQueue(deaf{r.Q.Device().(device.Programmable)})
	require.ErrorContains(t, err, "cuda:0 has no queue that launches programs")
}
