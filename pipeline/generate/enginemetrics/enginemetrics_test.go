package enginemetrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/generate/enginemetrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEngine(t *testing.T) {
	m, err := model.Parse(stories.Name, stories.GGUF)
	require.NoError(t, err)
	e, err := generate.New(t.Context(), m, pipeline.WithDevices("cpu,cpu"), generate.WithMaxSeqs(2))
	require.NoError(t, err)
	defer e.Close()
	for range 3 {
		_, err := e.Generate(t.Context(), generate.Request{Tokens: []int32{1, 403, 407}, MaxTokens: 5, IgnoreEnd: true})
		require.NoError(t, err)
	}
	c := enginemetrics.NewCollector(e)
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP leat_generated_tokens_total Tokens that were added to prompts.
# TYPE leat_generated_tokens_total counter
leat_generated_tokens_total 15
# HELP leat_prompt_tokens_total Tokens of the prompts of requests that arrived.
# TYPE leat_prompt_tokens_total counter
leat_prompt_tokens_total 9
# HELP leat_requests_running Requests that are admitted.
# TYPE leat_requests_running gauge
leat_requests_running 0
# HELP leat_requests_total Requests that ended, by how.
# TYPE leat_requests_total counter
leat_requests_total{finish="cancelled"} 0
leat_requests_total{finish="error"} 0
leat_requests_total{finish="length"} 3
leat_requests_total{finish="stop"} 0
`), "leat_generated_tokens_total", "leat_prompt_tokens_total", "leat_requests_running", "leat_requests_total"))
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	for _, line := range []string{
		`leat_request_queue_seconds_count 3`,
		`leat_request_first_token_seconds_count 3`,
		`leat_request_first_token_seconds_bucket{le="2e-05"} `,
		`leat_request_first_token_seconds_bucket{le="100"} 3`,
		`leat_token_seconds_count 12`,
		`leat_kv_pages 8`,
		`leat_stage_batches_total{device="` + e.Plan().Stages[1].Device.Name + `",layers="` + e.Plan().Stages[1].Layers + `",replica="0",stage="1"} `,
	} {
		assert.Contains(t, text.String(), "\n"+line)
	}
}
