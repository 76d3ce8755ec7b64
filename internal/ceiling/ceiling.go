// Package ceiling measures what the machine's cores do at most: how fast they read
// memory, and how many multiply-adds of each kind they make. A speed of Leat's kernels
// says something only beside these, measured in the same minutes.
//
// It knows nothing of models or kernels.
package ceiling

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Rate is the most of one thing that is done in a second.
type Rate struct {
	Name string  `json:"name"`
	What string  `json:"what"`
	Unit string  `json:"unit"`      // of what is counted: "B" or "MAC", a multiply-add
	One  float64 `json:"one_core"`  // a second, by one core
	All  float64 `json:"all_cores"` // by all together
}

// Names of rates.
const (
	Read      = "read"       // bytes of memory
	FMA       = "fma"        // float32, on vectors of 512 bits
	FMA256    = "fma-avx2"   // float32, on vectors of 256 bits
	Bytes     = "int8-vnni"  // bytes, by VPDPBUSD on vectors of 512 bits
	BytesAVX2 = "int8-avx2"  // bytes, by VPSIGNB, VPMADDUBSW and VPMADDWD on vectors of 256 bits
	BF16      = "bf16-vdpbf" // BF16, by VDPBF16PS on vectors of 512 bits
)

// loop is what a rate is measured by.
type loop struct {
	name, what string
	each       int // multiply-adds a round
	sum        uint32
	run        func(rounds int) uint32 // sum is what it returns after one round
}

// readSize is how much memory a core reads at a time: more than caches hold.
const readSize = 256 << 20

// Measure measures for about least time each, on one core and then on as many as run Go
// code at once. What the machine has no instructions for is left out.
func Measure(ctx context.Context, least time.Duration) ([]Rate, error) {
	cores := runtime.GOMAXPROCS(0)
	var rates []Rate
	memory := make([][]byte, cores)
	for i := range memory {
		memory[i] = make([]byte, readSize)
		for at := 0; at < readSize; at += 4096 {
			memory[i][at] = 1
		}
	}
	reading := Rate{Name: Read, What: "memory read", Unit: "B"}
	for _, n := range []int{1, cores} {
		rate, err := repeat(ctx, n, least, func(core int) float64 {
			read(memory[core])
			return readSize
		})
		if err != nil {
			return nil, err
		}
		reading.set(n == 1, rate)
	}
	rates = append(rates, reading)
	for _, l := range loops() {
		r := Rate{Name: l.name, What: l.what, Unit: "MAC"}
		for _, n := range []int{1, cores} {
			const rounds = 1 << 16
			rate, err := repeat(ctx, n, least, func(int) float64 {
				l.run(rounds)
				return rounds * float64(l.each)
			})
			if err != nil {
				return nil, err
			}
			r.set(n == 1, rate)
		}
		rates = append(rates, r)
	}
	return rates, nil
}

func (r *Rate) set(one bool, rate float64) {
	if one {
		r.One = rate
	}
	r.All = rate
}

// repeat has n goroutines do work until least time has passed, and returns what they
// did a second in the fastest of three such times. Work returns how much it did.
func repeat(ctx context.Context, n int, least time.Duration, work func(core int) float64) (float64, error) {
	best := 0.0
	for range 3 {
		var all sync.WaitGroup
		done, began := make([]float64, n), time.Now()
		for i := range n {
			all.Go(func() {
				sum := 0.0
				for ctx.Err() == nil && time.Since(began) < least {
					sum += work(i)
				}
				done[i] = sum / time.Since(began).Seconds()
			})
		}
		all.Wait()
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		sum := 0.0
		for _, d := range done {
			sum += d
		}
		best = max(best, sum)
	}
	return best, nil
}

// readWords is read where there is no assembly for it.
func readWords(p []byte) uint32 {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/8)
	var a, b, c, d uint64
	for ; len(words) >= 4; words = words[4:] {
		a, b, c, d = a+words[0], b+words[1], c+words[2], d+words[3]
	}
	return uint32(a + b + c + d)
}
