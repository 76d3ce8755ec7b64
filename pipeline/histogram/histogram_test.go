package histogram_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leat-dev/leat/pipeline/histogram"
)

func Example() {
	h := histogram.New([]int{1, 10, 100})
	for _, v := range []int{1, 2, 10, 11, 1000} {
		h.Add(v)
	}
	s := h.Snapshot()
	fmt.Println(s.Counts, s.Count(), s.Sum, s.Mean(), s.Quantile(0.6))
	// Output: [1 2 1 1] 5 1024 204 10
}

func TestLimits(t *testing.T) {
	for _, limits := range [][]int{histogram.Rows(), {}} {
		assert.True(t, slices.IsSorted(limits))
	}
	assert.Equal(t, []int{1, 2, 4, 8}, histogram.Rows()[:4])
	times := histogram.Times()
	assert.True(t, slices.IsSorted(times))
	assert.Len(t, times, 22)
	assert.Equal(t, []time.Duration{10_000, 20_000, 50_000, 100_000}, times[:4])
	assert.Equal(t, 100*time.Second, times[21])
}

func TestQuantile(t *testing.T) {
	h := histogram.New([]time.Duration{10, 20, 40})
	assert.Zero(t, h.Snapshot().Quantile(0.5), "of nothing")
	assert.Zero(t, h.Snapshot().Mean())
	for v := range time.Duration(40) {
		h.Add(v + 1)
	}
	s := h.Snapshot()
	for q, want := range map[float64]time.Duration{-1: 0, 0: 0, 0.25: 10, 0.375: 15, 0.5: 20, 0.75: 30, 1: 40, 2: 40} {
		assert.Equal(t, want, s.Quantile(q), "%v", q)
	}
	h.Add(1000)
	assert.EqualValues(t, 40, h.Snapshot().Quantile(1), "what is above all limits is at the last")
	only := histogram.New([]int(nil))
	only.Add(5)
	assert.Zero(t, only.Snapshot().Quantile(1))
	assert.Equal(t, 5, only.Snapshot().Mean())
}

// A quantile is never further from the exact one than the bucket is wide.
func TestQuantileIsInTheBucket(t *testing.T) {
	h, random := histogram.New(histogram.Rows()), rand.New(rand.NewPCG(1, 2))
	var values []int
	for range 1000 {
		v := 1 + random.IntN(4096)
		values = append(values, v)
		h.Add(v)
	}
	slices.Sort(values)
	for i := 1; i < 100; i++ {
		exact := values[i*10-1]
		got := h.Snapshot().Quantile(float64(i) / 100)
		assert.LessOrEqual(t, got, 2*exact)
		assert.GreaterOrEqual(t, got, exact/2)
	}
}

func TestManyAdd(t *testing.T) {
	h := histogram.New(histogram.Rows())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for v := range 1000 {
				h.Add(v)
			}
		})
	}
	wait.Wait()
	assert.EqualValues(t, 4000, h.Snapshot().Count())
	assert.Equal(t, 4*999*1000/2, h.Snapshot().Sum)
}

func TestAddAllocatesNothing(t *testing.T) {
	h := histogram.New(histogram.Times())
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Add(time.Second) }))
}

func BenchmarkAdd(b *testing.B) {
	h := histogram.New(histogram.Times())
	for b.Loop() {
		h.Add(time.Millisecond)
	}
}
