package panel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/leat-dev/leat/internal/panel"
	"github.com/leat-dev/leat/kernels"
)

// BenchmarkProduct multiplies by a panel that stays in the caches, on one core. GB/s
// counts the weights, read once for all rows of activations.
func BenchmarkProduct(b *testing.B) {
	const cols = 2048
	rng := rand.New(rand.NewPCG(15, 16))
	for _, typ := range append(floatTypes, intTypes...) {
		packed, stride := pack(randomMatrix(rng, typ, panel.Lanes, cols))
		for _, level := range panel.Levels() {
			for _, n := range []int{1, 2, 4, 8, 16, 64} {
				product := newProduct(b, kernelsOf(b, level), typ, n, cols)
				b.Run(fmt.Sprintf("%v/%s/n=%d", typ, level, n), func(b *testing.B) {
					for b.Loop() {
						product(packed)
					}
					reportRates(b, stride, n*cols*panel.Lanes)
				})
			}
		}
	}
}

// BenchmarkStream multiplies by more weights than a cache holds, on all cores: what a
// model's products come to.
func BenchmarkStream(b *testing.B) {
	const size, bytes = 2048, 256 << 20
	rng := rand.New(rand.NewPCG(31, 32))
	for _, typ := range append(floatTypes, intTypes...) {
		matrix, stride := pack(randomMatrix(rng, typ, 256, size))
		all := slices.Repeat(matrix, bytes/len(matrix))
		panels, workers := len(all)/stride, runtime.GOMAXPROCS(0)
		for _, level := range panel.Levels() {
			for _, n := range []int{1, 4, 8, 16, 64} {
				products := make([]func([]byte), workers)
				for w := range products {
					products[w] = newProduct(b, kernelsOf(b, level), typ, n, size)
				}
				b.Run(fmt.Sprintf("%v/%s/n=%d", typ, level, n), func(b *testing.B) {
					for b.Loop() {
						var done sync.WaitGroup
						for w, product := range products {
							done.Go(func() {
								for p := panels * w / workers; p < panels*(w+1)/workers; p++ {
									product(all[p*stride:][:stride])
								}
							})
						}
						done.Wait()
					}
					reportRates(b, panels*stride, panels*panel.Lanes*size*n)
				})
			}
		}
	}
}

// newProduct returns a function that multiplies a panel by n rows of activations.
func newProduct(b *testing.B, k *panel.Kernels, typ kernels.Type, n, cols int) func(p []byte) {
	x, y := randomFloats(rand.New(rand.NewPCG(15, 17)), n*cols), make([]float32, n*panel.Lanes)
	if !typ.Quantized() {
		return func(p []byte) { k.Float(typ, p, cols, x, cols, n, y, panel.Lanes) }
	}
	a := activations(b, n, cols)
	quantizeAll(k, a, x)
	return func(p []byte) { k.Int(typ, p, cols, a, 0, n, y, panel.Lanes) }
}

func reportRates(b *testing.B, bytes, macs int) {
	ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(float64(bytes)/ns, "GB/s")
	b.ReportMetric(float64(macs)/ns, "GMAC/s")
}

// BenchmarkAttention multiplies as attention does: one page of keys, then one
// panel of values.
func BenchmarkAttention(b *testing.B) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, level := range panel.Levels() {
		k := kernelsOf(b, level)
		for _, cols := range []int{32, 128} {
			p, _ := pack(randomMatrix(rng, floatTypes[1], panel.Lanes, cols))
			for _, n := range []int{1, 4, 8} {
				x, y := randomFloats(rng, n*cols), make([]float32, n*panel.Lanes)
				b.Run(fmt.Sprintf("%s/cols=%d/n=%d", level, cols, n), func(b *testing.B) {
					for b.Loop() {
						k.Float(floatTypes[1], p, cols, x, cols, n, y, panel.Lanes)
					}
				})
			}
		}
	}
}

func BenchmarkQuantize(b *testing.B) {
	const cols = 4096
	x := randomFloats(rand.New(rand.NewPCG(19, 20)), cols)
	for _, level := range panel.Levels() {
		k := kernelsOf(b, level)
		a := activations(b, 1, cols)
		b.Run(level, func(b *testing.B) {
			b.SetBytes(4 * cols)
			for b.Loop() {
				k.Quantize(a, 0, x)
			}
		})
	}
}

func BenchmarkPack(b *testing.B) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, typ := range append(floatTypes, intTypes...) {
		m := randomMatrix(rng, typ, panel.Lanes, 4096)
		packed, _ := pack(m)
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(m.Data)))
			for b.Loop() {
				panel.Pack(packed, m, 0)
			}
		})
	}
}
