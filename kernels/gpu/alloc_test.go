//go:build !race

package gpu

import (
	"testing"

	"github.com/leat-dev/leat/internal/kerneltest"
)

// Not under the race detector, where a sync.Pool forgets at random what purego's
// calls keep in one.
func TestOpsAllocateNothing(t *testing.T) { kerneltest.Allocations(t, gpu) }
