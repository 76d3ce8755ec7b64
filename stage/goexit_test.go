package stage_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/stage"
)

// A layer that ends its stage's goroutine, for every batch, fails these batches and
// nothing else: the stack doesn't grow with them.
func TestALayerThatAlwaysEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRow(t, "c", &adds{width: 1, ends: 7})
		before := debug.SetMaxStack(256 << 10)
		defer debug.SetMaxStack(before)
		for i := range int32(3000) {
			token := 6 + i%3
			r.send(0, false, token)
			b, err := r.recv()
			if token == 7 {
				require.ErrorContains(t, err, "a layer ended the stage's goroutine")
			} else {
				require.NoError(t, err)
				require.Equal(t, []float32{float32(token) + 1}, b.Values())
			}
		}
		assert.EqualValues(t, 3000, r.stages[0].Stats().Batches)
		r.close()
	})
}

// A layer that ends the goroutine that closes it is an error of Close, as one that
// panics is, and what else the stage holds is freed.
func TestALayerThatDoesNotReturnFromClose(t *testing.T) {
	for want, closing := range map[string]func(){
		"a layer ended the goroutine that closed it": runtime.Goexit,
		"panic: oh": func() { panic("oh") },
	} {
		d := &slow{name: "rocm:0"}
		layers := []stage.Layer{&adds{name: "block 0", width: 1, closing: closing}}
		s, err := stage.Load(t.Context(), stage.Position{Last: true}, d, layers, stage.Config{MaxRows: 1, MaxOutputs: 1, InFlight: 1}, nil)
		require.NoError(t, err)
		assert.ErrorContains(t, s.Close(), want)
		assert.NoError(t, s.Close())
		assert.Zero(t, d.Allocated())
	}
}
