package pipeline_test

import "fmt"

// Two devices share the first run: each has all of it, and takes every other
// batch.
func ExamplePlan_Routes() {
	plan := imagined("cuda:0|cuda:1,cuda:2")
	fmt.Println(plan.Routes(), "routes,", plan.InFlight(), "batches in flight on each")
	// Output: 2 routes, 2 batches in flight on each
}

func ExampleStagePlan_Devices() {
	plan := imagined("cuda:0|cuda:1,cuda:2")
	for _, s := range plan.Stages {
		fmt.Println(s.Devices())
	}
	// Output:
	// cuda:0|cuda:1
	// cuda:2
}

func ExampleStagePlan_Each() {
	plan := imagined("cuda:0=24GiB|cuda:1=16GiB")
	for _, replica := range plan.Stages[0].Each() {
		fmt.Println(replica.Device.Name, replica.Layers, replica.Budget>>30, "GiB")
	}
	// Output:
	// cuda:0 blocks 0-3 24 GiB
	// cuda:1 blocks 0-3 16 GiB
}
