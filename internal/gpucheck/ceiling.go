package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/gpukernels/ptx"
)

// ceilings are what the GPU does at most, a second. 0: not measured.
type ceilings struct {
	copied float64 // bytes, read and written both counted
	fma    float64 // multiply-adds of floats
	dp4a   float64 // multiply-adds of bytes, four an instruction
}

// Parameters of the kernels in internal/gpukernels/source/ceiling.h.
type (
	copyParams struct{ dst, src uint64 }
	rateParams struct {
		dst    uint64
		rounds int32
		_      int32
	}
)

const (
	copiedBlock = 16 << 10 // bytes that a block copies
	operations  = 128      // of a thread in a round
	threads     = 256
)

// measureCeilings measures them, with results compared to the host's.
func (c *check) measureCeilings(ctx context.Context) (err error) {
	var set device.Set
	defer func() { err = errors.Join(err, set.Close()) }()
	d, err := set.Open(c.device)
	if err != nil {
		return err
	}
	gpu, ok := d.(device.Programmable)
	if !ok {
		return fmt.Errorf("%s runs no programs", c.device)
	}
	program, err := gpu.Load(ptx.Kernels)
	if err != nil {
		return err
	}
	queue, err := d.NewQueue()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Close()) }()
	launcher, ok := queue.(device.Launcher)
	if !ok {
		return fmt.Errorf("%s has no queue that launches programs", c.device)
	}
	b, err := newBench(launcher, c.sizes)
	if err != nil {
		return err
	}
	s := section{title: "Ceilings", table: [][]string{{"what", "a second"}}}
	for _, size := range c.sizes.copied {
		if size > d.Info().Free/4 {
			c.report.skip("a copy of "+device.FormatSize(size), "the GPU has %s free", device.FormatSize(d.Info().Free))
			continue
		}
		rate, err := b.copyRate(ctx, launcher, program, size)
		if err != nil {
			return fmt.Errorf("copying %s: %w", device.FormatSize(size), err)
		}
		c.most.copied = max(c.most.copied, rate)
		s.table = append(s.table, []string{"memory copied, " + device.FormatSize(size) + " at a time, bytes read and written", giga(rate) + " GB"})
	}
	if c.most.fma, err = b.rate(ctx, launcher, program, "leat_ceiling_fma", 1, c.sizes, fmaResult); err != nil {
		return err
	}
	if c.most.dp4a, err = b.rate(ctx, launcher, program, "leat_ceiling_dp4a", 4, c.sizes, dp4aResult); err != nil {
		return err
	}
	s.table = append(s.table,
		[]string{"float multiply-adds (FMA), as two operations each", tera(2*c.most.fma) + " TFLOP"},
		[]string{"byte multiply-adds (dp4a), as two operations each", tera(2*c.most.dp4a) + " TOP"})
	s.note = "Measured in this run, by kernels that do nothing else. The matrix rates are those of the instructions that Leat's products use so far; a GPU's matrix units do more."
	c.report.add(s)
	c.say("ceilings: %s GB/s copied, %s TFLOP/s, %s TOP/s of bytes", giga(c.most.copied), tera(2*c.most.fma), tera(2*c.most.dp4a))
	return nil
}

// copyRate is in bytes a second, read and written.
func (b *bench) copyRate(ctx context.Context, q device.Launcher, p device.Program, size int64) (rate float64, err error) {
	f, err := p.Function("leat_ceiling_copy")
	if err != nil {
		return 0, err
	}
	var a arena
	defer func() { err = errors.Join(err, a.free()) }()
	src, at := a.alloc(q.Device(), size)
	dst, to := a.alloc(q.Device(), size)
	if a.err != nil {
		return 0, a.err
	}
	random := make([]byte, min(size, 4<<20))
	fill(random, rand.New(rand.NewPCG(1, 1)))
	err = b.once(ctx, func() {
		for from := int64(0); from < size; from += int64(len(random)) {
			q.Upload(src, from, random[:min(size-from, int64(len(random)))])
		}
	})
	if err != nil {
		return 0, err
	}
	params := copyParams{to, at}
	took, err := b.time(ctx, func() {
		q.Launch(f, device.Grid{X: uint32(size / copiedBlock), Y: 1, Z: 1, Threads: threads}, bytesOf(&params))
	})
	if err != nil {
		return 0, err
	}
	got := make([]byte, len(random))
	last := (size - 1) / int64(len(random)) * int64(len(random))
	got = got[:size-last]
	if err := b.once(ctx, func() { q.Download(got, dst, last) }); err != nil {
		return 0, err
	}
	if !bytes.Equal(got, random[:len(got)]) {
		return 0, errors.New("the copy differs from what was copied")
	}
	return 2 * float64(size) / took.Seconds(), nil
}

// rate is in multiply-adds a second, of which an operation has each. result computes
// what a thread's is, and says whether that is what came out.
func (b *bench) rate(ctx context.Context, q device.Launcher, p device.Program, name string, each float64, s sizes,
	result func(thread, rounds int32, got int32) bool) (rate float64, err error) {
	f, err := p.Function(name)
	if err != nil {
		return 0, err
	}
	var a arena
	defer func() { err = errors.Join(err, a.free()) }()
	out, at := a.alloc(q.Device(), int64(4*threads*s.blocks))
	if a.err != nil {
		return 0, a.err
	}
	params := rateParams{dst: at, rounds: int32(s.rounds)}
	took, err := b.time(ctx, func() {
		q.Launch(f, device.Grid{X: uint32(s.blocks), Y: 1, Z: 1, Threads: threads}, bytesOf(&params))
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	got := make([]int32, threads)
	err = b.once(ctx, func() { q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), 4*threads), out, 0) })
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	for _, i := range []int32{0, 1, threads - 1} {
		if !result(i, params.rounds, got[i]) {
			return 0, fmt.Errorf("%s: thread %d's result is wrong: %#x", name, i, uint32(got[i]))
		}
	}
	return each * float64(s.blocks) * threads * operations * float64(s.rounds) / took.Seconds(), nil
}

// chains is how many sums a thread of the rate kernels has.
const chains = 8

func fmaResult(thread, rounds, got int32) bool {
	a, b := float64(0.5+float32(rounds)*1e-9), float64(thread+1)
	sum := 0.0
	for c := range int32(chains) {
		acc := float64(thread + c)
		for range rounds * operations / chains {
			acc = acc*a + b
		}
		sum += acc
	}
	return math.Abs(float64(math.Float32frombits(uint32(got)))-sum) <= 1e-5*sum
}

func dp4aResult(thread, rounds, got int32) bool {
	b := int32(uint32(rounds)*0x01030507) + thread
	sum := int32(0)
	for c := range int32(chains) {
		acc := thread + c
		for range rounds * operations / chains {
			next := acc
			for i := 0; i < 32; i += 8 {
				next += int32(int8(acc>>i)) * int32(int8(b>>i))
			}
			acc = next
		}
		sum += acc
	}
	return sum == got
}

func bytesOf[P any](p *P) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
