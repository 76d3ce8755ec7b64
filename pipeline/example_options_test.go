package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// show plans n layers and prints the stages.
func show(n int, options ...pipeline.Option) {
	plan, err := pipeline.NewPlan(context.Background(), layers(n), options...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range plan.Stages {
		fmt.Println(s.Layers)
	}
}

func ExampleWithDevices() {
	show(6, pipeline.WithDevices("cpu@1,cpu@2")) // the second twice as fast
	// Output:
	// blocks 0-1
	// blocks 2-5
}

func ExampleWithImagined() {
	show(4, pipeline.WithImagined("cuda:0=24GiB@1,cuda:1=24GiB@1"))
	// Output:
	// blocks 0-1
	// blocks 2-3
}

func ExampleWithPlacement() {
	dir, err := os.MkdirTemp("", "leat")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "placement.json")
	placement := `{"version": 1, "layers": {"0": "cpu", "*": "cpu=1GiB"}}`
	if err := os.WriteFile(path, []byte(placement), 0o600); err != nil {
		log.Fatal(err)
	}
	show(4, pipeline.WithPlacement(path))
	// Output:
	// block 0
	// blocks 1-3
}

func ExampleWithPlacementFile() {
	file, err := placement.Parse("inline", []byte(`{"version": 1, "layers": {"0-2": "cpu", "3": "cpu=1GiB"}}`))
	if err != nil {
		log.Fatal(err)
	}
	show(4, pipeline.WithPlacementFile(file))
	// Output:
	// blocks 0-2
	// block 3
}

func ExampleWithThreads() {
	show(4, pipeline.WithDevices("cpu"), pipeline.WithThreads(1))
	// Output: blocks 0-3
}

func ExampleWithPack() {
	show(4, pipeline.WithDevices("cpu,cpu"), pipeline.WithPack(pipeline.FirstFit)) // all of them fit the first
	// Output: blocks 0-3
}

func ExampleWithInFlight() {
	p := doublings(4, pipeline.WithInFlight(5))
	defer p.Close()
	fmt.Println(p.Plan().InFlight(), "batches at once")
	// Output: 5 batches at once
}

func ExampleWithQueue() {
	p := doublings(4, pipeline.WithQueue(2, 1)) // two batches wait before the first stage, one before others
	defer p.Close()
	fmt.Println(p.Do(context.Background(), []float32{1, 2}))
	// Output: [16 32] <nil>
}

func ExampleWithMaxBatch() {
	p := doublings(1, pipeline.WithMaxBatch(8))
	defer p.Close()
	if _, err := p.Do(context.Background(), make([]float32, 2*20)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("20 rows in", p.Stats().Batches, "batches")
	// Output: 20 rows in 3 batches
}

func ExampleWithCalibration() {
	dir, err := os.MkdirTemp("", "leat") // such as os.UserCacheDir's, to measure once a month
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	show(4, pipeline.WithDevices("cpu,cpu"), pipeline.WithCalibration(dir))
	_, err = os.Stat(filepath.Join(dir, "rates.json"))
	fmt.Println(err)
	// Output:
	// blocks 0-1
	// blocks 2-3
	// <nil>
}

func ExampleWithReserve() {
	show(4, pipeline.WithDevices("cpu"), pipeline.WithReserve(64<<20))
	// Output: blocks 0-3
}

func ExampleWithProgress() {
	p := doublings(3, pipeline.WithProgress(func(loaded, total int64) {
		fmt.Println(100*loaded/total, "%")
	}))
	defer p.Close()
	// Output:
	// 33 %
	// 66 %
	// 100 %
}

func ExampleWithState() {
	// Layers that keep keys and values between batches are given their pages.
	p := doublings(2, pipeline.WithState(stage.Config{Pages: 16, Expect: 8}))
	defer p.Close()
	fmt.Println(p.Do(context.Background(), []float32{1, 2}))
	// Output: [4 8] <nil>
}

func ExampleWithInput() {
	p := doublings(1, pipeline.WithInput(2))
	defer p.Close()
	_, err := p.Do(context.Background(), []float32{1, 2, 3})
	fmt.Println(err)
	// Output: 3 numbers are not a whole number of rows of 2
}

func ExampleWithMaxWait() {
	// A batch of up to 64 rows leaves when it is full, or after a millisecond.
	p := doublings(2, pipeline.WithMaxBatch(64), pipeline.WithMaxWait(time.Millisecond))
	defer p.Close()
	fmt.Println(p.Do(context.Background(), []float32{1, 2}))
	// Output: [4 8] <nil>
}

func ExampleWithBacklog() {
	p := doublings(2, pipeline.WithBacklog(16)) // the 17th caller that would wait blocks, or gets ErrBusy
	defer p.Close()
	fmt.Println(p.Do(context.Background(), []float32{1, 2}))
	// Output: [4 8] <nil>
}

func ExampleWithAhead() {
	p := doublings(1, pipeline.WithAhead(4)) // four rows are read before the loop sees the first
	defer p.Close()
	elements := [][]float32{{1, 2}}
	for y, err := range p.Map(context.Background(), slices.Values(elements)) {
		fmt.Println(y, err)
	}
	// Output: [2 4] <nil>
}

func ExampleWithIsolation() {
	p := doublings(1, pipeline.WithIsolation(false)) // a batch is computed once, whatever comes of it
	defer p.Close()
	fmt.Println(p.Do(context.Background(), []float32{1, 2}))
	// Output: [2 4] <nil>
}

func ExampleWithFailureLimit() {
	p := doublings(1, pipeline.WithFailureLimit(3))
	defer p.Close()
	fmt.Println(p.Err()) // a *FailingError after three batches that failed, and a fourth of the pipeline's own
	// Output: <nil>
}

func ExampleWithLogger() {
	without := func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, "device", "bytes": // these are the machine's
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: without}))
	p := doublings(2, pipeline.WithLogger(log.With("model", "doubling")))
	p.Close()
	// Output:
	// level=INFO msg="stage loaded" model=doubling stage=0 layers="block 0"
	// level=INFO msg="stage loaded" model=doubling stage=1 layers="block 1"
	// level=INFO msg="pipeline started" model=doubling stages=2 inflight=2 max_batch=512
	// level=DEBUG msg="pipeline closed" model=doubling error=<nil>
}
