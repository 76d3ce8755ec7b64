package cpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// spinJob is a job whose parts take n steps of integer work each.
type spinJob struct {
	steps int
	sink  [64][16]uint64 // a cache line and more for each worker
}

func (j *spinJob) Do(_, worker int) {
	x := j.sink[worker][0] | 1
	for range j.steps {
		x = x*6364136223846793005 + 1442695040888963407
	}
	j.sink[worker][0] = x
}

func BenchmarkVisit(b *testing.B) {
	for _, name := range []string{"cpu", "cpu:0"} {
		b.Run(name, func(b *testing.B) {
			q := newQueue(b, name)
			b.ReportAllocs()
			for b.Loop() {
				q.Begin()
				q.End()
			}
		})
	}
}

// BenchmarkParallel runs jobs of eight parts, with and without the team. What
// the parts take on their own is the first line of each pair.
func BenchmarkParallel(b *testing.B) {
	for _, steps := range []int{1, 1_000, 10_000, 100_000} {
		for _, name := range []string{"cpu:0", "cpu"} {
			b.Run(fmt.Sprintf("%s/%d steps", name, steps), func(b *testing.B) {
				q := newQueue(b, name)
				j := &spinJob{steps: steps}
				b.ReportAllocs()
				q.Begin()
				defer q.End()
				for b.Loop() {
					q.Parallel(8, j)
				}
				require.NoError(b, q.Err())
			})
		}
	}
}

// newQueue opens a device of this machine and closes it when the test ends.
func newQueue(t testing.TB, name string) *Queue {
	t.Helper()
	d, err := newBackend(processCores(), quota()).Open(name)
	require.NoError(t, err)
	q, err := d.NewQueue()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	})
	return q.(*Queue)
}
