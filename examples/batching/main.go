// Batching serves a small neural network over HTTP. Requests that come at the
// same time share batches, so that one read of the weights serves them all, and
// each gets the same bits as if it had come alone.
//
//	go run ./examples/batching -devices cpu/2
//	curl -d '[[0.1, 0.2, 0.3, 0.4]]' localhost:8080/predict
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	devices := flag.String("devices", "cpu", "where the layers stand, such as cpu/2")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *devices); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr, devices string) (err error) {
	p, err := open(ctx, pipeline.WithDevices(devices), pipeline.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Warmup(ctx); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /predict", predict(p))
	server := &http.Server{Addr: addr, Handler: mux}
	down := make(chan error, 1)
	defer context.AfterFunc(ctx, func() { down <- server.Shutdown(context.Background()) })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-down
}

// widths are the numbers in a row before the first layer and behind each.
var widths = []int{4, 64, 64, 3}

// open starts a pipeline of dense layers, all but the last with an activation.
func open(ctx context.Context, options ...pipeline.Option) (*pipeline.Pipeline, error) {
	var network []stage.Layer
	for i, out := range widths[1:] {
		f := kernels.SiLU
		if i == len(widths)-2 {
			f = layers.Linear
		}
		w, b := weights(i)
		l, err := layers.NewDense(fmt.Sprintf("dense %d", i), widths[i], out, w, b, f)
		if err != nil {
			return nil, err
		}
		network = append(network, l)
	}
	return pipeline.New(ctx, network, append(options, pipeline.WithInput(widths[0]))...)
}

// weights draws what a network would have learned: the weights and the bias of a layer.
func weights(layer int) (w, b []float32) {
	r := rand.New(rand.NewPCG(1, uint64(layer)))
	in, out := widths[layer], widths[layer+1]
	w, b = make([]float32, out*in), make([]float32, out)
	for _, all := range [][]float32{w, b} {
		for i := range all {
			all[i] = float32(r.NormFloat64() / math.Sqrt(float64(in)))
		}
	}
	return w, b
}

// mostBytes is the largest request.
const mostBytes = 1 << 20

// predict answers a JSON array of rows with one of as many rows.
func predict(p *pipeline.Pipeline) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x, err := rows(http.MaxBytesReader(w, r.Body, mostBytes), p.Input())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		y, err := p.Do(r.Context(), x) // ends with the request, should the client leave
		switch {
		case errors.Is(err, pipeline.ErrClosed), errors.Is(err, pipeline.ErrFailing):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			answer(w, y, p.Output())
		}
	}
}

// rows reads a JSON array of rows of so many numbers.
func rows(body io.Reader, width int) ([]float32, error) {
	var in [][]float32
	if err := json.NewDecoder(body).Decode(&in); err != nil {
		return nil, fmt.Errorf("the request is not an array of rows of numbers: %w", err)
	}
	if len(in) == 0 {
		return nil, errors.New("the request has no rows")
	}
	var x []float32
	for i, row := range in {
		if len(row) != width {
			return nil, fmt.Errorf("row %d has %d numbers, it must have %d", i, len(row), width)
		}
		x = append(x, row...)
	}
	return x, nil
}

func answer(w http.ResponseWriter, y []float32, width int) {
	out := make([][]float32, 0, len(y)/width)
	for ; len(y) > 0; y = y[width:] {
		out = append(out, y[:width])
	}
	body, err := json.Marshal(out)
	if err != nil { // JSON has no infinite numbers
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that has left isn't told
}
