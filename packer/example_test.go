package packer_test

import (
	"fmt"

	"github.com/leat-dev/leat/packer"
)

// Example places a model of an embedding, six blocks and a head on a fast GPU, a
// slower one, and the CPU: FirstFit fills the first device, and Balanced distributes the entries.
func Example() {
	const MiB = 1 << 20
	var entries []packer.Entry
	add := func(name, shared string, weights int64) {
		entries = append(entries, packer.Entry{
			Name:     name,
			OutBytes: 4096,
			Costs: []packer.Cost{
				{Weights: weights * MiB, Shared: shared, Fixed: 1e-3},
				{Weights: weights * MiB, Shared: shared, Fixed: 2e-3},
				{Weights: weights * MiB, Shared: shared, Fixed: 20e-3},
			},
		})
	}
	add("embedding", "token table", 50)
	for i := range 6 {
		add(fmt.Sprintf("block %d", i), "", 100)
	}
	add("output head", "token table", 50)
	devices := []packer.Device{
		{Name: "cuda:0", Budget: 700 * MiB, Overhead: 30 * MiB},
		{Name: "cuda:1", Budget: 900 * MiB, Overhead: 30 * MiB},
		{Name: "cpu", Budget: -1},
	}

	for _, pack := range []func([]packer.Entry, []packer.Device) ([]packer.Run, error){packer.FirstFit, packer.Balanced} {
		runs, err := pack(entries, devices)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, r := range runs {
			bytes, seconds := packer.Load(entries, devices, r)
			fmt.Printf("%s: %s to %s, %d MiB, %.0f ms\n",
				devices[r.Device].Name, entries[r.From].Name, entries[r.To-1].Name, bytes/MiB, seconds*1e3)
		}
		fmt.Println()
	}
	// Output:
	// cuda:0: embedding to output head, 680 MiB, 8 ms
	//
	// cuda:0: embedding to block 4, 580 MiB, 6 ms
	// cuda:1: block 5 to output head, 180 MiB, 4 ms
}

// ExampleExplain prints why each run ended at its last entry.
func ExampleExplain() {
	block := packer.Cost{Weights: 300, State: 100, PerRow: 1}
	entries := make([]packer.Entry, 5)
	for i := range entries {
		entries[i] = packer.Entry{Name: fmt.Sprintf("block %d", i), Costs: []packer.Cost{block, block, block}}
	}
	gpu := &packer.Memory{Name: "cuda:0", Budget: 2000}
	devices := []packer.Device{
		{Name: "cuda:0", Budget: 1000, Overhead: 50, Memory: gpu},
		{Name: "cpu", Budget: 500, Run: func(from, to int) int64 { return int64(to-from) * 20 }},
		{Name: "cuda:0", Budget: -1, Overhead: 50, Memory: gpu},
	}
	runs, err := packer.FirstFit(entries, devices)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := packer.Explain(entries, devices, runs)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, use := range report.Devices {
		fmt.Printf("%s: entries %d to %d, %d bytes, %d free, %.0f%% of a round\n",
			devices[i].Name, use.Run.From, use.Run.To-1, use.Bytes, use.Free, 100*use.Share)
		if use.Spill != nil {
			fmt.Println("  then", use.Spill.Describe(func(n int64) string { return fmt.Sprint(n) }))
		}
	}
	fmt.Println("crossings:", report.Crossings)
	// Output:
	// cuda:0: entries 0 to 1, 850 bytes, 150 free, 40% of a round
	//   then device cuda:0: budget 1000, block 2 needs 400 beside 800 of the entries before it and 50 of overhead: 250 short
	// cpu: entries 2 to 2, 420 bytes, 80 free, 20% of a round
	//   then device cpu: budget 500, block 3 needs 400 beside 400 of the entries before it and 40 of overhead: 340 short
	// cuda:0: entries 3 to 4, 850 bytes, 300 free, 40% of a round
	// crossings: 2
}
