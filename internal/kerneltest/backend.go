// Package kerneltest is what every implementation of the op set in package kernels
// must pass: a function for each op, or idea, that compares it with float64 arithmetic,
// asks it for the same bits however a batch is cut, and hands it what is wrong.
//
// An implementation's own test says what it is like and calls them all:
//
//	var backend = kerneltest.Backend{Open: open, Memory: memory, Token: token, …}
//
//	func TestRMSNorm(t *testing.T)   { kerneltest.RMSNorm(t, backend) }
//	func TestMatMul(t *testing.T)    { kerneltest.MatMul(t, backend) }
//	func TestAttention(t *testing.T) { kerneltest.Attention(t, backend) }
//
// and so on through LayerNorm, RoPE, Activate, Gated, Add, Embed, Gather, ArgMax, TopK, StoreKV, Pack, Memory,
// Allocations, Refuse and Errors: kernels/cpu and kernels/gpu do, and an op set for
// ROCm or Metal begins with the same dozen lines. What only one of them has (panels,
// faults of a driver) it tests by itself, on the same [Rig].
//
// The tests know a device only through its queue: its memory may be out of the host's
// reach. Kernels for the CPU must be in the binary too, as they are the judge in Errors.
package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
)

// Backend is what the tests have to know of an implementation of the op set.
type Backend struct {
	// Open opens a device for the time of a test, or skips the test.
	Open func(t testing.TB) device.Device

	// Alike opens more devices whose results must have the same bits, such as one
	// with fewer cores. It may be nil.
	Alike func(t testing.TB) []device.Device

	// Types are those that a weight may have there; nil: all. The float ones come first.
	Types []kernels.Type

	// Memory returns the buffer that a cache lies in.
	Memory func(c kernels.Cache) device.Buffer

	// Token reads the key and the value of a head at a token of a page, HeadDim
	// numbers each, from a copy of a cache's memory.
	Token func(s kernels.CacheSpec, mem []byte, page, head, token int) (k, v []float64)

	// Segment is how many columns a product with quantized weights sums on their
	// own, before it adds the sums; 0: all.
	Segment int

	// ArgMaxCols is how many columns of a row ArgMax searches at a time.
	ArgMaxCols int

	// RMSNorm bounds the error of a norm of cols columns, relative to the result;
	// RoPE that of a rotation, relative to |a| + |b| of the pair.
	RMSNorm func(cols int) float64
	RoPE    float64

	// Slow says that the device is emulated: the largest shapes are cut down.
	Slow bool

	// Refusals are more of them, in the words of the backend's own.
	Refusals []Refusal
}

// Rig opens a device with a queue.
func (b Backend) Rig(t testing.TB) *Rig { return b.On(t, b.Open(t)) }

// On is a rig with a queue of its own on a device that is open.
func (b Backend) On(t testing.TB, d device.Device) *Rig {
	t.Helper()
	ops, err := kernels.For(d.Info().Kind)
	require.NoError(t, err)
	q, err := ops.NewQueue(d)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	ready, err := q.NewEvent()
	require.NoError(t, err)
	return &Rig{TB: t, Q: q, Ready: ready, memory: b.Memory, ops: ops}
}

// rigs opens all devices that must have the same bits.
func (b Backend) rigs(t testing.TB) []*Rig {
	all := []*Rig{b.Rig(t)}
	if b.Alike != nil {
		for _, d := range b.Alike(t) {
			all = append(all, b.On(t, d))
		}
	}
	return all
}

// fewer is n, or less where the device is slow.
func (b Backend) fewer(n, less int) int {
	if b.Slow {
		return less
	}
	return n
}

// part is one of the tests that a function of this package runs.
type part struct {
	name string
	run  func(t *testing.T, b Backend)
}

func (b Backend) run(t *testing.T, parts ...part) {
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { p.run(t, b) })
	}
}
