package pipeline_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// times is a layer of one's own: it multiplies rows of two numbers by a factor,
// with a matrix that has it on its diagonal.
type times struct {
	name   string
	factor float32
}

func (l times) Name() string       { return l.name }
func (l times) Shape() stage.Shape { return stage.Shape{Width: 2} }

func (l times) Cost(d device.Info, _ stage.Config) (packer.Cost, error) {
	bytes, err := kernels.SizesFor(d.Kind).WeightBytes(kernels.F32, 2, 2)
	return packer.Cost{Weights: bytes, Fixed: 1e-6, PerRow: 1e-9}, err
}

func (l times) Load(ctx context.Context, q kernels.Queue, _ stage.Config) (stage.Runner, error) {
	var data []byte
	for _, v := range []float32{l.factor, 0, 0, l.factor} {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	w, err := q.Pack(ctx, kernels.Matrix{Name: l.name, Type: kernels.F32, Rows: 2, Cols: 2, Data: data})
	return &multiplying{[]kernels.Product{{W: w}}}, err
}

type multiplying struct{ products []kernels.Product }

func (r *multiplying) Forward(p *stage.Pass, in, out kernels.Tensor) error {
	q := p.Queue
	r.products[0].Dst = out
	q.MatMul(in, r.products)
	return nil
}

func (r *multiplying) Close() error { return r.products[0].W.Free() }

// layers is n layers that each double.
func layers(n int) (l []stage.Layer) {
	for i := range n {
		l = append(l, times{fmt.Sprintf("block %d", i), 2})
	}
	return l
}

// doublings is a pipeline of n layers that each double, on two devices.
func doublings(n int, options ...pipeline.Option) *pipeline.Pipeline {
	options = append([]pipeline.Option{pipeline.WithInput(2), pipeline.WithDevices("cpu/2")}, options...)
	p, err := pipeline.New(context.Background(), layers(n), options...)
	if err != nil {
		log.Fatal(err)
	}
	return p
}

func Example() {
	ctx := context.Background()
	p, err := pipeline.New(ctx, layers(4), pipeline.WithInput(2), pipeline.WithDevices("cpu/2"))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	results := make([][]float32, 3)
	var callers sync.WaitGroup
	for i := range results {
		callers.Go(func() { // at the same time: they share batches
			y, err := p.Do(ctx, []float32{float32(i), 1})
			if err != nil {
				log.Print(err)
			}
			results[i] = y
		})
	}
	callers.Wait()
	fmt.Println(results)
	// Output: [[0 16] [16 16] [32 16]]
}

func ExampleNew() {
	p, err := pipeline.New(context.Background(), layers(3), pipeline.WithInput(2), pipeline.WithDevices("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	y, err := p.Do(context.Background(), []float32{1, 2})
	fmt.Println(y, err)
	// Output: [8 16] <nil>
}

func ExampleOpen() {
	plan, err := pipeline.NewPlan(context.Background(), layers(3), pipeline.WithInput(2), pipeline.WithDevices("cpu/2"))
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range plan.Stages {
		fmt.Println(s.Layers)
	}
	p, err := pipeline.Open(context.Background(), plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Close())
	// Output:
	// blocks 0-1
	// block 2
	// <nil>
}

func ExamplePipeline_Do() {
	p := doublings(2)
	defer p.Close()
	y, err := p.Do(context.Background(), []float32{1, 2, 3, 4, 5, 6}) // three rows
	fmt.Println(y, err)
	// Output: [4 8 12 16 20 24] <nil>
}

func ExamplePipeline_DoInto() {
	p := doublings(2)
	defer p.Close()
	x, y := make([]float32, 2), make([]float32, 2)
	for i := range 3 {
		x[0] = float32(i)
		if err := p.DoInto(context.Background(), y, x); err != nil {
			log.Fatal(err)
		}
		fmt.Println(y)
	}
	// Output:
	// [0 0]
	// [4 0]
	// [8 0]
}

func ExamplePipeline_TryDo() {
	p := doublings(2, pipeline.WithBacklog(64))
	defer p.Close()
	y, err := p.TryDo(context.Background(), []float32{1, 2})
	if errors.Is(err, pipeline.ErrBusy) {
		fmt.Println("64 others wait: come again later")
		return
	}
	fmt.Println(y, err)
	// Output: [4 8] <nil>
}

func ExamplePipeline_Map() {
	p := doublings(2)
	defer p.Close()
	elements := [][]float32{{1, 2}, {3, 4, 5, 6}} // of one row, and of two
	for y, err := range p.Map(context.Background(), slices.Values(elements)) {
		fmt.Println(y, err)
	}
	// Output:
	// [4 8] <nil>
	// [12 16 20 24] <nil>
}

func ExamplePipeline_MapErr() {
	p := doublings(2)
	defer p.Close()
	lines := func(yield func([]float32, error) bool) {
		_ = yield([]float32{1, 2}, nil) &&
			yield(nil, errors.New("line 2: not a number")) &&
			yield([]float32{3, 4}, nil)
	}
	for y, err := range p.MapErr(context.Background(), lines) {
		fmt.Println(y, err)
	}
	// Output:
	// [4 8] <nil>
	// [] line 2: not a number
	// [12 16] <nil>
}

func ExamplePipeline_MapUnordered() {
	p := doublings(2)
	defer p.Close()
	elements := [][]float32{{0, 0}, {1, 0}, {2, 0}}
	for r, err := range p.MapUnordered(context.Background(), slices.Values(elements)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Index, r.X, r.Y)
	}
	// Unordered output:
	// 0 [0 0] [0 0]
	// 1 [1 0] [4 0]
	// 2 [2 0] [8 0]
}

func ExamplePipeline_MapUnorderedErr() {
	p := doublings(2)
	defer p.Close()
	lines := func(yield func([]float32, error) bool) {
		_ = yield([]float32{1, 2}, nil) && yield(nil, errors.New("not a number"))
	}
	for r, err := range p.MapUnorderedErr(context.Background(), lines) {
		fmt.Println(r.Index, r.Y, err)
	}
	// Unordered output:
	// 0 [4 8] <nil>
	// 1 [] not a number
}

func ExamplePipeline_Warmup() {
	p := doublings(2)
	defer p.Close()
	fmt.Println(p.Warmup(context.Background()))
	// Output: <nil>
}

func ExamplePipeline_Stats() {
	p := doublings(2)
	defer p.Close()
	if _, err := p.Do(context.Background(), []float32{1, 2, 3, 4}); err != nil {
		log.Fatal(err)
	}
	s := p.Stats()
	fmt.Println(s.Calls, "call,", s.Batches, "batch,", s.Stages[1].Rows, "rows through the last stage")
	// Output: 1 call, 1 batch, 2 rows through the last stage
}

func ExamplePipeline_Plan() {
	p := doublings(4)
	defer p.Close()
	fmt.Println(len(p.Plan().Stages), "stages")
	// Output: 2 stages
}

func ExamplePipeline_Input() {
	p := doublings(4)
	defer p.Close()
	fmt.Println(p.Input(), "numbers in a row")
	// Output: 2 numbers in a row
}

func ExamplePipeline_Output() {
	p := doublings(4)
	defer p.Close()
	x := []float32{1, 2, 3, 4}
	y := make([]float32, len(x)/p.Input()*p.Output()) // for DoInto
	fmt.Println(len(y))
	// Output: 4
}

func ExamplePipeline_Err() {
	p := doublings(4)
	fmt.Println(p.Err())
	p.Close()
	fmt.Println(p.Err())
	// Output:
	// <nil>
	// pipeline closed
}

func ExamplePipeline_Shutdown() {
	p := doublings(4)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		p.Close() // a minute was enough
	}
	_, err := p.Do(context.Background(), []float32{1, 2})
	fmt.Println(err)
	// Output: pipeline closed
}

func ExamplePipeline_Close() {
	p := doublings(4)
	fmt.Println(p.Close()) // calls that have not ended get ErrClosed
	_, err := p.Do(context.Background(), []float32{1, 2})
	fmt.Println(errors.Is(err, pipeline.ErrClosed))
	// Output:
	// <nil>
	// true
}

func ExampleFailingError() {
	err := error(&pipeline.FailingError{Batches: 9, Err: errors.New("stage 1 (block 3) on cuda:0: the device is lost")})
	fmt.Println(err)
	fmt.Println(errors.Is(err, pipeline.ErrFailing))
	// Output:
	// pipeline failing: 9 batches failed in a row, the last one: stage 1 (block 3) on cuda:0: the device is lost
	// true
}
