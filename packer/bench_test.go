package packer

import (
	"math/rand/v2"
	"testing"
)

// large is a model of 200 entries on 16 devices that differ by up to two times.
func large() ([]Entry, []Device) {
	const entries, devices = 200, 16
	r := rand.New(rand.NewPCG(5, 6))
	e := make([]Entry, entries)
	for i := range e {
		e[i].OutBytes = 4096
		fixed, perRow := r.Float64(), r.Float64()
		for d := range devices {
			slow := 1 + float64(d)/devices
			e[i].Costs = append(e[i].Costs, Cost{Weights: 900 + r.Int64N(200), State: 100, Fixed: fixed * slow, PerRow: perRow * slow})
		}
	}
	for d := range devices {
		e[0].Costs[d].Shared, e[entries-1].Costs[d].Shared = "table", "table"
	}
	d := make([]Device, devices)
	for i := range d {
		d[i] = Device{Budget: unlimited, Link: 1e-9}
	}
	return e, d
}

func BenchmarkBalanced(b *testing.B) {
	tests := []struct {
		name   string
		change func([]Device)
	}{
		{"unlimited", func([]Device) {}},
		{"budgets", func(devices []Device) {
			for i := range devices {
				devices[i].Budget = 15000
			}
		}},
		{"runs", func(devices []Device) {
			for i := range devices {
				devices[i].Budget, devices[i].Run = 15000, perEntry(10)
			}
		}},
		{"host", func(devices []Device) { // half of the devices in one memory
			host := &Memory{Name: "host", Budget: 70000}
			for i := 0; i < len(devices); i += 2 {
				devices[i].Memory = host
			}
		}},
		{"twice", func(devices []Device) { // two GPUs at two places, and the CPU's
			memories := []*Memory{{Name: "0", Budget: 25000}, {Name: "1", Budget: 35000}, {Name: "host", Budget: 180000}}
			for i := range devices {
				devices[i].Memory = memories[2]
			}
			for _, i := range []int{0, 1, 8, 9} {
				devices[i].Memory, devices[i].Name = memories[i%2], memories[i%2].Name
			}
		}},
		{"crowded", func(devices []Device) { // each in one of three memories, all binding
			memories := []*Memory{{Name: "0", Budget: 72000}, {Name: "1", Budget: 72000}, {Name: "2", Budget: 80000}}
			for i := range devices {
				devices[i].Memory, devices[i].Name = memories[i%3], memories[i%3].Name
			}
		}},
		{"too large", func(devices []Device) {
			for i := range devices {
				devices[i].Budget, devices[i].Run = 13000, perEntry(10)
			}
		}},
	}
	for _, test := range tests {
		b.Run(test.name, func(b *testing.B) {
			entries, devices := large()
			test.change(devices)
			_, want := Balanced(entries, devices)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Balanced(entries, devices); (err == nil) != (want == nil) {
					b.Fatal(err)
				}
			}
			if want != nil {
				b.Log(want)
			}
		})
	}
}

func BenchmarkFirstFit(b *testing.B) {
	entries, devices := large()
	for i := range devices {
		devices[i].Budget, devices[i].Run = 15000, perEntry(10)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FirstFit(entries, devices); err != nil {
			b.Fatal(err)
		}
	}
}
