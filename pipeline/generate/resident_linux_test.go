package generate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// status returns a line of /proc/self/status, in bytes.
func status(t *testing.T, name string) int64 {
	data, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	t.Fatalf("/proc/self/status has no %s", name)
	return 0
}

// An engine holds what its plan says, and little more: not the file beside the weights
// that were packed from it, though the model stays open.
func TestAFileIsGivenBackOnceItIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	file := gguftest.Llama{Type: gguf.Q8_0, Vocab: 16 << 10, Width: 1024, Hidden: 4096, Blocks: 2, Heads: 16, KVHeads: 4}.Build()
	require.NoError(t, os.WriteFile(path, file, 0o600))
	size := int64(len(file))
	require.Greater(t, size, int64(60<<20))
	file = nil
	debug.FreeOSMemory()
	before, mapped := status(t, "VmRSS"), status(t, "RssFile")

	m, err := model.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	p, err := generate.NewPlan(t.Context(), m, pipeline.WithDevices("cpu/2"))
	require.NoError(t, err)
	planned := int64(0)
	for _, s := range p.Stages {
		planned += s.Bytes()
	}
	e, err := p.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	_, err = e.Generate(t.Context(), generate.Request{Tokens: []int32{1, 2, 3}, MaxTokens: 4, IgnoreEnd: true})
	require.NoError(t, err)

	t.Logf("the file has %d MB, planned are %d MB, resident are %d MB more than before", size>>20, planned>>20, (status(t, "VmRSS")-before)>>20)
	assert.Less(t, status(t, "RssFile")-mapped, size/8, "the file's pages are still mapped")
	assert.Less(t, status(t, "VmRSS")-before, planned+size/2, "more than what is planned is resident")
}
