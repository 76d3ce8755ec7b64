package pipeline_test

import (
	"context"
	"fmt"
	"log"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func ExampleLine_TrySubmit() {
	line, finished := running()
	defer line.Close()
	b := <-line.Free()
	b.Header.Append(0, 0, 0, true)
	sent, err := line.TrySubmit(b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent)
	line.Release(<-finished)
	// Output: true
}

func ExampleLine_Pick() {
	line, finished := running(pipeline.WithDevices("cpu:0|cpu:0"))
	defer line.Close()
	for range 4 {
		b := <-line.Free()
		line.Steer(b, line.Pick()) // layers without state take any route
		b.Header.Append(0, 0, 0, true)
		if err := line.Submit(context.Background(), b); err != nil {
			log.Fatal(err)
		}
		b = <-finished
		fmt.Print(b.Route, " ")
		line.Release(b)
	}
	// Output: 0 1 0 1
}

func ExampleLine_Steer() {
	line, finished := running(pipeline.WithDevices("cpu:0|cpu:0"))
	defer line.Close()
	b := <-line.Free()
	line.Steer(b, 1)
	b.Header.Append(0, 0, 0, true)
	copy(b.Input, []float32{1, 2}) // in the memory of the second replica
	if err := line.Submit(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	b = <-finished
	fmt.Println(b.Values())
	line.Release(b)
	// Output: [16 32]
}

func ExampleLine_Working() {
	line, _ := running()
	defer line.Close()
	fmt.Println(line.Working(0))
	// Output: true
}

func ExampleLine_WorkingRoutes() {
	line, _ := running(pipeline.WithDevices("cpu:0|cpu:0"))
	defer line.Close()
	fmt.Println(line.WorkingRoutes())
	// Output: 2
}

func ExampleLine_RouteErr() {
	line, _ := running()
	defer line.Close()
	fmt.Println(line.RouteErr(0)) // a *FailingError after a probe that failed
	// Output: <nil>
}

func ExampleLine_Err() {
	line, _ := running()
	defer line.Close()
	fmt.Println(line.Err()) // while some route isn't failing
	// Output: <nil>
}

// failures is a line whose batches may fail three times in a row, and what finishes.
// Every batch fails whose first number is negative.
func failures() (*pipeline.Line, <-chan *stage.Batch) {
	return runningLayers(sensitive(), pipeline.WithInput(1), pipeline.WithDevices("cpu"), pipeline.WithFailureLimit(3))
}

func ExampleLine_Due() {
	line, finished := failures()
	defer line.Close()
	for range 3 {
		b := <-line.Free()
		b.Header.Append(0, 0, 0, true)
		b.Input[0] = -1
		if err := line.Submit(context.Background(), b); err != nil {
			log.Fatal(err)
		}
		line.Release(<-finished)
	}
	fmt.Println(line.Working(0), line.Due(0), line.RouteErr(0)) // is it the route, or the rows?
	// Output: false true <nil>
}

func ExampleLine_Probe() {
	line, finished := failures()
	defer line.Close()
	for i := range 4 {
		b := <-line.Free()
		b.Header.Append(0, 0, 0, true)
		if b.Input[0] = -1; line.Probe(b, 0) {
			b.Input[0] = 0 // a row that can be computed
			fmt.Println("batch", i, "is a probe")
		}
		if err := line.Submit(context.Background(), b); err != nil {
			log.Fatal(err)
		}
		line.Release(<-finished)
	}
	fmt.Println(line.Working(0)) // it was the rows
	// Output:
	// batch 3 is a probe
	// true
}

func ExampleStagePlan_On() {
	s := imagined("cpu:0|cpu:1").Stages[0]
	for route := range 2 {
		fmt.Println(s.On(route).Device.Name)
	}
	// Output:
	// cpu:0
	// cpu:1
}
