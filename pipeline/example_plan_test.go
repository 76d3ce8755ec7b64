package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// planned is a plan of four layers for two devices.
func planned(options ...pipeline.Option) *pipeline.Plan {
	return planOf(append([]pipeline.Option{pipeline.WithDevices("cpu/2")}, options...)...)
}

// imagined plans for the devices of another machine.
func imagined(list string) *pipeline.Plan { return planOf(pipeline.WithImagined(list)) }

func planOf(options ...pipeline.Option) *pipeline.Plan {
	plan, err := pipeline.NewPlan(context.Background(), layers(4), append(options, pipeline.WithInput(2))...)
	if err != nil {
		log.Fatal(err)
	}
	return plan
}

func ExampleNewPlan() {
	plan, err := pipeline.NewPlan(context.Background(), layers(4), pipeline.WithDevices("cpu/2"))
	if err != nil {
		log.Fatal(err)
	}
	for i, s := range plan.Stages {
		fmt.Printf("stage %d: %s\n", i, s.Layers)
	}
	// Output:
	// stage 0: blocks 0-1
	// stage 1: blocks 2-3
}

func ExampleSurvey() {
	site, err := pipeline.Survey(context.Background(), layers(4), pipeline.WithDevices("cpu/2"))
	if err != nil {
		log.Fatal(err)
	}
	// One survey serves plans for different numbers of pages.
	for _, pages := range []int{8, 16} {
		plan, err := site.Plan(context.Background(), stage.Config{Pages: pages})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pages, "pages,", len(plan.Stages), "stages")
	}
	// Output:
	// 8 pages, 2 stages
	// 16 pages, 2 stages
}

func ExampleSite_Plan() {
	site, err := pipeline.Survey(context.Background(), layers(4), pipeline.WithDevices("cpu/4"))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := site.Plan(context.Background(), stage.Config{})
	fmt.Println(len(plan.Stages), err)
	// Output: 4 <nil>
}

func ExamplePlan_With() {
	plan := planned()
	more, err := plan.With(context.Background(), stage.Config{Pages: 100}) // at the same places
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(more.Stages[0].Layers == plan.Stages[0].Layers)
	// Output: true
}

func ExampleOpenLine() {
	// A line takes batches, as package generate forms them.
	finished := make(chan *stage.Batch, 2) // as many as may be in flight: the handler must not block
	line, err := pipeline.OpenLine(context.Background(), planned(), pipeline.Handler{
		Finished: func(b *stage.Batch) { finished <- b },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer line.Close()
	b := <-line.Free()
	b.Header.Append(0, 0, 0, true) // a row,
	copy(b.Input, []float32{1, 2}) // and what it brings along
	if err := line.Submit(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	b = <-finished
	fmt.Println(b.Values(), b.Err())
	line.Release(b)
	// Output: [16 32] <nil>
}

// running is a line of four layers, and the batches that it has finished.
func running(options ...pipeline.Option) (*pipeline.Line, <-chan *stage.Batch) {
	options = append([]pipeline.Option{pipeline.WithInput(2), pipeline.WithDevices("cpu/2")}, options...)
	return runningLayers(layers(4), options...)
}

func runningLayers(layers []stage.Layer, options ...pipeline.Option) (*pipeline.Line, <-chan *stage.Batch) {
	plan, err := pipeline.NewPlan(context.Background(), layers, options...)
	if err != nil {
		log.Fatal(err)
	}
	finished := make(chan *stage.Batch, plan.InFlight()*plan.Routes())
	line, err := pipeline.OpenLine(context.Background(), plan, pipeline.Handler{
		Finished: func(b *stage.Batch) { finished <- b },
	})
	if err != nil {
		log.Fatal(err)
	}
	return line, finished
}

func ExampleLine_Free() {
	line, _ := running()
	defer line.Close()
	one, other := <-line.Free(), <-line.Free() // as many as may be in flight
	fmt.Println(one.Slot, other.Slot)
	// Output: 0 1
}

func ExampleLine_Submit() {
	line, finished := running()
	defer line.Close()
	b := <-line.Free()
	b.Header.Append(0, 0, 0, true)
	fmt.Println(line.Submit(context.Background(), b))
	line.Release(<-finished)
	// Output: <nil>
}

func ExampleHandler() {
	var line *pipeline.Line
	left := 3
	done := make(chan struct{})
	line, err := pipeline.OpenLine(context.Background(), planned(), pipeline.Handler{
		Finished: func(b *stage.Batch) {
			fmt.Println(b.Tag, b.Err())
			line.Release(b)
			if left--; left == 0 {
				close(done)
				return
			}
			next := <-line.Free() // there is one: that which was just released
			next.Tag = left
			next.Header.Append(0, 0, 0, true)
			if sent, err := line.TrySubmit(next); !sent { // Submit would block the last stage
				log.Fatal(err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer line.Close()
	b := <-line.Free()
	b.Tag = left
	b.Header.Append(0, 0, 0, true)
	if err := line.Submit(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	<-done
	// Output:
	// 3 <nil>
	// 2 <nil>
	// 1 <nil>
}

func ExampleLine_Release() {
	line, _ := running()
	defer line.Close()
	b := <-line.Free()
	line.Release(b) // it was not sent
	fmt.Println(len(line.Free()))
	// Output: 2
}

func ExampleLine_Plan() {
	line, _ := running()
	defer line.Close()
	fmt.Println(len(line.Plan().Stages))
	// Output: 2
}

func ExampleLine_Stats() {
	line, _ := running()
	defer line.Close()
	for _, s := range line.Stats().Stages {
		fmt.Println(s.Layers, s.Batches)
	}
	// Output:
	// blocks 0-1 0
	// blocks 2-3 0
}

func ExampleLine_Shutdown() {
	line, _ := running()
	fmt.Println(line.Shutdown(context.Background())) // when the batches in flight have finished
	// Output: <nil>
}

func ExampleLine_Close() {
	line, _ := running()
	fmt.Println(line.Close())
	// Output: <nil>
}

func ExamplePlan_InFlight() {
	fmt.Println(planned().InFlight()) // as many as stages
	// Output: 2
}

func ExamplePlan_InFlightGiven() {
	fmt.Println(planned().InFlightGiven(), planned(pipeline.WithInFlight(2)).InFlightGiven())
	// Output: false true
}

func ExamplePlan_MaxBatch() {
	fmt.Println(planned(pipeline.WithMaxBatch(32)).MaxBatch())
	// Output: 32
}

func ExamplePlan_Crossings() {
	fmt.Println(planned(pipeline.WithDevices("cpu,cpu")).Crossings()) // two stages of one device
	// Output: 0
}

func ExamplePlan_Speedup() {
	fmt.Printf("%.1f times as many batches as one device\n", planned().Speedup())
	// Output: 2.0 times as many batches as one device
}

func ExamplePlan_Slowest() {
	plan := planned(pipeline.WithDevices("cpu/3"))
	s := plan.Stages[plan.Slowest()]
	fmt.Println(s.To-s.From, "layers")
	// Output: 2 layers
}

func ExampleStagePlan_Bytes() {
	s := planned().Stages[0]
	fmt.Println(s.Bytes() == s.Weights+s.State+s.Overhead)
	// Output: true
}

func ExampleLine_Room() {
	line, _ := running()
	defer line.Close()
	fmt.Println(line.Room(0)) // nothing was sent yet
	// Output: true
}

func ExampleSite_Fits() {
	site, err := pipeline.Survey(context.Background(), layers(4), pipeline.WithDevices("cpu=1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(site.Fits(context.Background(), stage.Config{}), packer.ErrNoFit))
	// Output: true
}

func ExamplePlan_Fits() {
	err := planned().Fits(context.Background(), stage.Config{Pages: 100}) // at the same places
	fmt.Println(err)
	// Output: <nil>
}

func ExampleSite_Chooses() {
	site, err := pipeline.Survey(context.Background(), layers(4), pipeline.WithDevices("cpu/2"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(site.Chooses())
	// Output: true
}

func ExamplePlan_Share() {
	plan := planned()
	for i, s := range plan.Stages {
		fmt.Printf("%s: %.0f%% of a round\n", s.Layers, 100*plan.Share(i))
	}
	// Output:
	// blocks 0-1: 50% of a round
	// blocks 2-3: 50% of a round
}

func ExamplePlan_ExpectedRows() {
	fmt.Println(planned().ExpectedRows(), "row a batch")
	// Output: 1 row a batch
}

func ExamplePlan_RowsPerSecond() {
	plan := planned(pipeline.WithDevices("cpu:0@1,cpu:0@2")) // speeds that are relative
	fmt.Println(plan.RowsPerSecond())
	// Output: 0
}
