package main

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server of the network.
func serve(t *testing.T, options ...pipeline.Option) (*pipeline.Pipeline, *httptest.Server) {
	p, err := open(t.Context(), options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	s := httptest.NewServer(predict(p))
	t.Cleanup(func() { s.Close(); s.Client().CloseIdleConnections() })
	return p, s
}

// post sends a request and returns its status and body.
func post(t *testing.T, s *httptest.Server, body string) (int, string) {
	r, err := s.Client().Post(s.URL, "application/json", strings.NewReader(body))
	if !assert.NoError(t, err) {
		return 0, ""
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	assert.NoError(t, err)
	return r.StatusCode, strings.TrimSpace(string(answer))
}

// compute is what the network makes of a row, in float64.
func compute(x []float64) []float64 {
	for layer := range len(widths) - 1 {
		w, b := weights(layer)
		y := make([]float64, len(b))
		for j := range y {
			y[j] = float64(b[j])
			for k, v := range x {
				y[j] += v * float64(w[j*len(x)+k])
			}
			if layer < len(widths)-2 {
				y[j] /= 1 + math.Exp(-y[j]) // SiLU
			}
		}
		x = y
	}
	return x
}

func TestRequestsShareBatches(t *testing.T) {
	const requests, each = 32, 2
	// A batch waits until it is full: all requests are one.
	together, s := serve(t, pipeline.WithDevices("cpu/2"), pipeline.WithMaxBatch(requests*each), pipeline.WithMaxWait(time.Hour))
	_, alone := serve(t, pipeline.WithDevices("cpu"))
	var clients sync.WaitGroup
	for i := range requests {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			var x, y [][]float64
			for range each {
				row := make([]float64, 4)
				for k := range row {
					row[k] = float64(float32(r.NormFloat64()))
				}
				x = append(x, row)
			}
			body, err := json.Marshal(x)
			assert.NoError(t, err)
			status, answer := post(t, s, string(body))
			assert.Equal(t, http.StatusOK, status, answer)
			assert.NoError(t, json.Unmarshal([]byte(answer), &y))
			if !assert.Len(t, y, each) {
				return
			}
			for row := range x {
				for j, want := range compute(x[row]) {
					// Three sums of up to 64 float32 products each.
					assert.InDelta(t, want, y[row][j], 1e-4*(1+math.Abs(want)))
				}
			}
			_, other := post(t, alone, string(body))
			assert.Equal(t, other, answer, "the same bits, whatever shares the batch")
		})
	}
	clients.Wait()
	stats := together.Stats()
	assert.EqualValues(t, requests, stats.Calls)
	assert.EqualValues(t, 1, stats.Batches)
}

func TestBadRequests(t *testing.T) {
	p, s := serve(t, pipeline.WithDevices("cpu"))
	for body, want := range map[string]string{
		``:                          "not an array",
		`{"x": 1}`:                  "not an array",
		`[["one", "two"]]`:          "not an array",
		`[]`:                        "no rows",
		`[[1, 2, 3, 4], [1, 2, 3]]`: "row 1 has 3 numbers, it must have 4",
		`[[1, 2, 3, 1e99]]`:         "not an array",
		`[[` + strings.Repeat("1, ", mostBytes) + `1]]`: "too large",
	} {
		status, answer := post(t, s, body)
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, answer, want)
	}
	assert.Zero(t, p.Stats().Calls)

	require.NoError(t, p.Close())
	status, answer := post(t, s, `[[1, 2, 3, 4]]`)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, answer, "closed")
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, "127.0.0.1:0", "cpu/2") }()
	cancel()
	if err := <-ended; err != nil { // it may have ended before it was ready
		assert.ErrorIs(t, err, context.Canceled)
	}
}
