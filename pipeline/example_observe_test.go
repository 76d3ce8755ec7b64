package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/trace"
	"github.com/leat-dev/leat/stage"
)

func ExampleWithObserver() {
	var file bytes.Buffer // one to be opened with https://ui.perfetto.dev
	t := trace.New(&file)
	p, err := pipeline.New(context.Background(), layers(4), pipeline.WithInput(2), pipeline.WithDevices("cpu,cpu"), pipeline.WithObserver(t))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.Do(context.Background(), []float32{1, 2}); err != nil {
		log.Fatal(err)
	}
	if err := p.Close(); err != nil {
		log.Fatal(err)
	}
	if err := t.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Count(file.String(), `"name":"batch 1"`)) // formed, in two stages, its results
	// Output: 4
}

// rowsDone is an observer that counts the rows that stages have done.
type rowsDone struct{ atomic.Int64 }

func (r *rowsDone) Filled(pipeline.Handling)  {}
func (r *rowsDone) Worked(w stage.Work)       { r.Add(int64(w.Rows)) }
func (r *rowsDone) Emptied(pipeline.Handling) {}

func ExampleObserver() {
	rows := new(rowsDone)
	p, err := pipeline.New(context.Background(), layers(4), pipeline.WithInput(2), pipeline.WithDevices("cpu,cpu"), pipeline.WithObserver(rows))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Do(context.Background(), make([]float32, 2*3)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows.Load()) // three rows, two stages
	// Output: 6
}

func ExampleLine_Begin() {
	line, finished := running()
	defer line.Close()
	b := <-line.Free()
	line.Begin(b) // an observer sees how long it takes to fill the batch
	b.Header.Append(0, 0, 0, true)
	if err := line.Submit(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	b = <-finished
	line.Begin(b) // and to take the results
	fmt.Println(len(b.Values()))
	line.Release(b)
	// Output: 2
}

func ExampleLine_Stats_rows() {
	line, finished := running()
	defer line.Close()
	for _, rows := range []int{1, 3} {
		b := <-line.Free()
		for range rows {
			b.Header.Append(0, 0, 0, true)
		}
		if err := line.Submit(context.Background(), b); err != nil {
			log.Fatal(err)
		}
		line.Release(<-finished)
	}
	rows := line.Stats().Rows
	fmt.Println(rows.Count(), rows.Sum, rows.Mean())
	// Output: 2 4 2
}
