package cuda

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/emulator"
)

// A process that opens and closes a GPU again and again doesn't grow: neither what is
// Leat's, nor, behind it, the emulated driver.
func TestOpenAndCloseTakeNoMemory(t *testing.T) {
	if race {
		t.Skip("the race detector keeps memory of its own")
	}
	emulator.Use(t, emulator.Machine{GPUs: 1})
	again := func(times int) int {
		for range times {
			d, err := backend.Open("cuda:0")
			require.NoError(t, err)
			q, err := d.NewQueue()
			require.NoError(t, err)
			for i := range 50 {
				b, err := d.Alloc(int64(1000 * (i + 1)))
				require.NoError(t, err)
				within(q, func() { q.Upload(b, 0, make([]byte, 500)) })
				require.NoError(t, outcomeOf(t, q.(*Queue)))
				require.NoError(t, b.Free())
			}
			require.NoError(t, q.Close())
			require.NoError(t, d.Close())
		}
		debug.FreeOSMemory()
		return resident(t)
	}
	first := again(100) // the emulator remembers what was freed last
	second := again(100)
	t.Logf("%d KB, then %d KB", first>>10, second>>10)
	require.Less(t, second-first, 4<<20)
}

// resident returns the process's memory, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
