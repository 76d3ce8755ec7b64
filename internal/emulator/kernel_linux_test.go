//go:build amd64 || arm64

package emulator

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Blocks, warps and lanes run forwards in one launch and backwards in the next: what a
// right kernel computes doesn't change.
func bothWays(t *testing.T, check func(t *testing.T, g *gpu)) {
	g := start(t, Machine{}).open(0)
	check(t, g)
	check(t, g)
}

func TestCopyKernel(t *testing.T) {
	bothWays(t, func(t *testing.T, g *gpu) {
		src, dst := g.filled(1000, 1), g.alloc(4*1000)
		require.Zero(t, g.launch(g.stream, "leat_test_copy", 16, copyParams{dst, src, 990, 10}))
		got := g.floats(dst, 1000)
		for i := range 990 {
			require.Equal(t, float32(11+i), got[i])
		}
		assert.EqualValues(t, poison, math.Float32bits(got[990]), "never written")
	})
}

func TestShuffle(t *testing.T) {
	bothWays(t, func(t *testing.T, g *gpu) {
		src, dst := g.filled(64, 0), g.alloc(4*64)
		require.Zero(t, g.launch(g.stream, "leat_test_shuffle", 1, copyParams{dst, src, 64, 0}))
		want := slices.Concat(slices.Repeat([]float32{31 * 16}, 32), slices.Repeat([]float32{95*16 + 1000}, 32))
		assert.Equal(t, want, g.floats(dst, 64))
	})
}

func TestBarrier(t *testing.T) {
	bothWays(t, func(t *testing.T, g *gpu) {
		src, dst := g.filled(64, 0), g.alloc(4*64)
		require.Zero(t, g.launch(g.stream, "leat_test_barrier", 2, copyParams{dst, src, 64, 0}))
		for i, v := range g.floats(dst, 64) {
			require.Equal(t, float32(63-i), v)
		}
	})
}

// A missing barrier shows in at least one order, for shared memory is poisoned.
func TestMissingBarrier(t *testing.T) {
	poisoned := false
	bothWays(t, func(t *testing.T, g *gpu) {
		src, dst := g.filled(64, 0), g.alloc(4*64)
		require.Zero(t, g.launch(g.stream, "leat_test_no_barrier", 1, copyParams{dst, src, 64, 0}))
		for _, v := range g.floats(dst, 64) {
			poisoned = poisoned || math.Float32bits(v) == poison
		}
	})
	assert.True(t, poisoned)
}

func TestSharedMemoryIsPoisoned(t *testing.T) {
	bothWays(t, func(t *testing.T, g *gpu) {
		dst := g.alloc(4 * 64)
		require.Zero(t, g.launch(g.stream, "leat_test_poison", 1, copyParams{dst, dst, 64, 0}))
		for _, v := range g.floats(dst, 64) {
			require.EqualValues(t, poison, math.Float32bits(v))
		}
	})
}

func TestBlockIndicesAndStatus(t *testing.T) {
	backwards := false
	bothWays(t, func(t *testing.T, g *gpu) {
		dst, status := g.alloc(4*24), g.filled(8, 0)
		g.must("cuMemsetD32Async", status, 0, 8, g.stream)
		p := struct{ dst, status uintptr }{dst, status}
		require.Zero(t, g.launchWith(g.stream, "leat_test_status", [3]uintptr{2, 3, 4}, unsafe.Pointer(&p)))
		for i, v := range g.floats(dst, 24) {
			require.EqualValues(t, i%2+i/2%3*10+i/6*100, math.Float32bits(v))
		}
		var words []uint32
		for _, v := range g.floats(status, 8) {
			words = append(words, math.Float32bits(v))
		}
		first := uint32(0)
		if backwards {
			first = 23
		}
		assert.Equal(t, []uint32{3, 2, first, math.MaxUint32, 5, 0, 0, 0}, words, "who came first tells")
		backwards = true
	})
}

func TestDP4A(t *testing.T) {
	g := start(t, Machine{}).open(0)
	a, b, dst := g.alloc(256), g.alloc(256), g.alloc(256)
	left, right := make([]float32, 64), make([]float32, 64)
	for i := range left {
		left[i] = math.Float32frombits(uint32(i) * 0x9e3779b9)
		right[i] = math.Float32frombits(uint32(i) * 0x85ebca6b)
	}
	require.Zero(t, g.upload(a, left, g.stream))
	require.Zero(t, g.upload(b, right, g.stream))
	p := struct{ dst, a, b uintptr }{dst, a, b}
	require.Zero(t, g.launchWith(g.stream, "leat_test_dp4a", [3]uintptr{1, 1, 1}, unsafe.Pointer(&p)))
	for i, v := range g.floats(dst, 64) {
		want := int32(i)
		for shift := 0; shift < 32; shift += 8 {
			want += int32(int8(math.Float32bits(left[i])>>shift)) * int32(int8(math.Float32bits(right[i])>>shift))
		}
		require.EqualValues(t, want, int32(math.Float32bits(v)), "lane %d", i)
	}
}

// All 16-bit numbers to float32 and back, judged by their definition in float64.
func TestHalf(t *testing.T) {
	g := start(t, Machine{}).open(0)
	wide, narrow := g.alloc(4<<16), g.alloc(2<<16)
	p := struct{ wide, narrow uintptr }{wide, narrow}
	require.Zero(t, g.launchWith(g.stream, "leat_test_half", [3]uintptr{1 << 10, 1, 1}, unsafe.Pointer(&p)))
	floats, packed := g.floats(wide, 1<<16), g.floats(narrow, 1<<15)
	for i, f := range floats {
		back := uint16(math.Float32bits(packed[i/2]) >> (i % 2 * 16))
		want := half(uint16(i))
		if math.IsNaN(want) {
			require.EqualValues(t, 0x7fffffff, math.Float32bits(f), "%#x", i)
			require.EqualValues(t, 0x7fff, back, "%#x", i)
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(float64(f)), "%#x", i)
		require.EqualValues(t, i, back)
	}
}

// Between each two neighbours: below, at and above the middle, of both signs.
func TestRoundToHalf(t *testing.T) {
	g := start(t, Machine{}).open(0)
	var in []float32
	var want []uint16
	for i := range uint16(0x7c00) {
		low, high := half(i), half(i+1)
		if i == 0x7bff {
			high = 65536
		}
		middle := float32((low + high) / 2)
		even := i + i&1
		in = append(in, math.Nextafter32(middle, 0), middle, math.Nextafter32(middle, 1e9), -middle)
		want = append(want, i, even, i+1, even|0x8000)
	}
	in = append(in, float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, 1e-30)
	want = append(want, 0x7c00, 0xfc00, 0x7c00, 0)
	for len(in)%64 != 0 {
		in, want = append(in, 0), append(want, 0)
	}
	wide, narrow := g.alloc(4*len(in)), g.alloc(2*len(in))
	require.Zero(t, g.upload(wide, in, g.stream))
	p := struct{ wide, narrow uintptr }{wide, narrow}
	require.Zero(t, g.launchWith(g.stream, "leat_test_round", [3]uintptr{uintptr(len(in) / 64), 1, 1}, unsafe.Pointer(&p)))
	packed := g.floats(narrow, len(in)/2)
	for i, f := range in {
		require.Equal(t, want[i], uint16(math.Float32bits(packed[i/2])>>(i%2*16)), "%v", f)
	}
}

// half is the number that 16 bits stand for.
func half(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1+fraction/1024, exponent-15)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		v = math.Inf(1)
	case exponent == 0:
		v = math.Ldexp(fraction, -24)
	}
	if bits&0x8000 != 0 {
		v = math.Copysign(v, -1)
	}
	return v
}

// A launch that does what it must not is reported once, with the place, and the
// context is of no more use until its last release.
func TestWrongKernels(t *testing.T) {
	tests := []struct {
		name, kernel, report string
		params               func(g *gpu, p *copyParams)
	}{
		{"read behind the end", "leat_test_copy",
			`^leat_test_copy on GPU 0, block \(0, 0, 0\), thread 63: read of 4 bytes outside of an allocation: .*\(byte 256 of allocation \d+ of GPU 0\), which has 256 bytes$`,
			func(g *gpu, p *copyParams) { p.from = 1 }},
		{"read before the beginning", "leat_test_copy", `thread 0: read of 4 bytes outside of an allocation: .*\(byte -4 of`,
			func(g *gpu, p *copyParams) { p.from = -1 }},
		{"far outside", "leat_test_copy", `read of 4 bytes outside of an allocation`,
			func(g *gpu, p *copyParams) { p.from = math.MinInt32 }},
		{"write behind the end", "leat_test_copy", `thread 15: write of 4 bytes outside of an allocation: .*\(byte 60 .*has 60 bytes`,
			func(g *gpu, p *copyParams) { p.dst = g.alloc(60) }},
		{"never allocated", "leat_test_copy", `read at 0x43\w+ \(byte 0 of allocation 4194000 of GPU 0\), which was never allocated`,
			func(g *gpu, p *copyParams) { p.src = 1<<62 | 4194000<<36 | 1<<35 }},
		{"null", "leat_test_copy", `read at 0x0 \(no device address\), which was never allocated`,
			func(g *gpu, p *copyParams) { p.src = 0 }},
		{"freed", "leat_test_copy", `read of freed memory: .*which has 256 bytes`,
			func(g *gpu, p *copyParams) {
				g.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&p.src)), 256)
				g.must("cuMemFree_v2", p.src)
			}},
		{"misaligned", "leat_test_misaligned", `thread 0: read of 4 bytes at an address that isn't a multiple of 4: .*\(byte 1 of`,
			func(*gpu, *copyParams) {}},
		{"shared memory", "leat_test_shared", `thread 63: used element 64 of a shared array of 64 elements of 4 bytes`,
			func(g *gpu, p *copyParams) { p.from = 1 }},
		{"left before a barrier", "leat_test_leave", `threads wait for each other forever: thread 0 is at a block's barrier in line \d+, thread 32 has ended`,
			func(g *gpu, p *copyParams) { p.n = 32 }},
		{"left before a barrier in a warp", "leat_test_leave", `thread 40 has ended`,
			func(g *gpu, p *copyParams) { p.n = 40 }},
		{"two shuffles", "leat_test_diverge", `thread 0 is at a shuffle in line \d+, thread 16 is at a shuffle in line \d+`,
			func(*gpu, *copyParams) {}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := start(t, Machine{}).open(0)
			p := copyParams{dst: g.alloc(256), src: g.filled(64, 0), n: 64}
			test.params(g, &p)
			require.Zero(t, g.launch(g.stream, test.kernel, 1, p))
			assert.Equal(t, illegalAddress, g.sync(g.stream))
			g.reported(test.report)
			assert.Equal(t, illegalAddress, g.call("cuMemsetD8Async", p.dst, 0, 1, g.stream), "the error stays")
			g.release()
			assert.Zero(t, g.last)

			again := g.open(0)
			assert.Zero(t, again.launch(again.stream, "leat_test_copy", 1, copyParams{again.alloc(256), again.filled(64, 0), 64, 0}))
			assert.Zero(t, again.sync(again.stream), "after the last release all is well")
		})
	}
}
