package panel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/leat-dev/leat/internal/panel"
)

// BenchmarkProduct multiplies a 2048×2048 matrix on one core. GB/s counts the
// weights, read once for all rows of activations.
func BenchmarkProduct(b *testing.B) {
	const size = 2048
	rng := rand.New(rand.NewPCG(15, 16))
	for _, typ := range append(floatTypes, intTypes...) {
		packed, stride := pack(randomMatrix(rng, typ, size, size))
		for _, level := range panel.Levels() {
			k := kernelsOf(b, level)
			for _, n := range []int{1, 8, 64} {
				x, y := randomFloats(rng, n*size), make([]float32, n*size)
				a := activations(b, n, size)
				quantizeAll(k, a, x)
				b.Run(fmt.Sprintf("%v/%s/n=%d", typ, level, n), func(b *testing.B) {
					for b.Loop() {
						for p := range size / panel.Lanes {
							w, to := packed[p*stride:][:stride], y[p*panel.Lanes:]
							if typ.Quantized() {
								k.Int(typ, w, size, a, 0, n, to, size)
							} else {
								k.Float(typ, w, size, x, size, n, to, size)
							}
						}
					}
					seconds := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(float64(len(packed))/seconds/1e9, "GB/s")
					b.ReportMetric(float64(2*size*size*n)/seconds/1e9, "GFLOP/s")
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
		matrix, stride := pack(randomMatrix(rng, typ, size, size))
		all := slices.Repeat(matrix, bytes/len(matrix))
		panels, workers := len(all)/stride, runtime.GOMAXPROCS(0)
		for _, level := range panel.Levels() {
			k := kernelsOf(b, level)
			for _, n := range []int{1, 4, 8, 16, 64} {
				x := randomFloats(rng, n*size)
				a := activations(b, n, size)
				quantizeAll(k, a, x)
				b.Run(fmt.Sprintf("%v/%s/n=%d", typ, level, n), func(b *testing.B) {
					for b.Loop() {
						var done sync.WaitGroup
						for w := range workers {
							done.Go(func() {
								y := make([]float32, n*panel.Lanes)
								for p := panels * w / workers; p < panels*(w+1)/workers; p++ {
									if packed := all[p*stride:][:stride]; typ.Quantized() {
										k.Int(typ, packed, size, a, 0, n, y, panel.Lanes)
									} else {
										k.Float(typ, packed, size, x, size, n, y, panel.Lanes)
									}
								}
							})
						}
						done.Wait()
					}
					seconds := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(float64(panels*stride)/seconds/1e9, "GB/s")
					b.ReportMetric(float64(panels*panel.Lanes*size*n)/seconds/1e9, "GMAC/s")
				})
			}
		}
	}
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
