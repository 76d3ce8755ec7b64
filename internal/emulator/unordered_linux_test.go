//go:build amd64 || arm64

package emulator

import (
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each way of sharing memory, in both orders in which the emulator runs threads: what
// no barrier orders is reported in either, and nothing else is.
func TestUnorderedThreads(t *testing.T) {
	const (
		ordered = ""
		shared  = `(reads|writes) element \d+ of a shared array, which (thread \d+|another thread of the block) has (written|read), and no barrier is between$`
		threads = `(reads|writes) 0x\w+ \(byte \d+ of allocation \d+ of GPU 0\), which thread \d+ has (written|read), and no barrier is between$`
		blocks  = `(reads|writes) 0x\w+ \(byte \d+ of allocation \d+ of GPU 0\), which another block has (written|read) in the same launch$`
	)
	tests := map[string][]string{
		"leat_test_unordered_shared": {ordered, ordered, shared, shared, shared, shared, shared, ordered, shared, shared, ordered},
		"leat_test_unordered_device": {ordered, ordered, threads, blocks, blocks, blocks, ordered, threads, threads, ordered},
	}
	for kernel, ways := range tests {
		for how, report := range ways {
			for _, before := range []int{0, 1} {
				t.Run(kernel+" "+strconv.Itoa(how)+" after "+strconv.Itoa(before), func(t *testing.T) {
					g := start(t, Machine{Races: true}).open(0)
					dst := g.filled(256, 0)
					for range before {
						g.launch(g.stream, "leat_test_copy", 1, copyParams{dst, g.filled(64, 0), 64, 0})
					}
					p := unorderedParams{dst: dst, how: int32(how)}
					require.Zero(t, g.launchWith(g.stream, kernel, [3]uintptr{2, 1, 1}, unsafe.Pointer(&p)))
					if report == ordered {
						assert.Zero(t, g.sync(g.stream))
						return
					}
					assert.Equal(t, illegalAddress, g.sync(g.stream))
					g.reported(report)
				})
			}
		}
	}
}

type unorderedParams struct {
	dst    uintptr
	how, _ int32
}

// What one launch did is no matter for the next.
func TestUnorderedLaunches(t *testing.T) {
	g := start(t, Machine{Races: true}).open(0)
	dst, src := g.filled(64, 0), g.filled(64, 0)
	for range 3 {
		require.Zero(t, g.launch(g.stream, "leat_test_barrier", 1, copyParams{dst, src, 64, 0}))
		dst, src = src, dst
	}
	assert.Zero(t, g.sync(g.stream))
}
