package packer_test

import (
	"fmt"

	"github.com/leat-dev/leat/packer"
)

// Example places a model of an embedding, six blocks and a head on a fast GPU, a
// slower one, and the CPU: first-fit fills the first, the other shares out.
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
