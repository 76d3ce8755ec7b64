// Package packer is the arithmetic of placement: which contiguous run of a
// model's entries goes to which device.
//
// An entry is the embedding, a block, the output head, or a layer of the
// caller's own. The packer sees numbers only: what an entry costs on each
// device, what a device may hold. It never touches a file or a device, so the
// same functions plan for machines that aren't there.
//
// FirstFit and Balanced cut the entries into runs, Check judges a cut that came
// from elsewhere, and Explain says what a cut takes and what ended each run. A
// place for a run may have several devices, which then each hold all of it.
// Sums of bytes that would pass the largest int64 stay there.
package packer

// Cost is what one entry takes on one device.
type Cost struct {
	Weights int64   // bytes of weights, as they will lie on that device
	State   int64   // bytes that requests leave behind there: key/value pages of one replica
	Shared  string  // weights under one non-empty name are counted once a run (a tied head); see Memory
	Own     int64   // bytes of Weights that lie beside the shared ones (the head's norm)
	Fixed   float64 // seconds a batch, whatever its rows: with replicas, from one batch to the next
	PerRow  float64 // seconds a row
}

// Entry is one layer of a model, in forward order.
type Entry struct {
	Name     string
	OutBytes int64  // bytes of activations a row that it hands on
	Costs    []Cost // one a device, in the order of the devices
}

// Device is a place for a run. One device of a machine may stand at several
// places, under the same name.
type Device struct {
	Name     string
	Budget   int64   // bytes its run may hold; negative: unlimited; 0: it takes nothing
	Overhead int64   // bytes that any run needs here besides its entries
	Link     float64 // seconds a byte of activations received
	Memory   *Memory // what it shares with other devices; nil: nothing

	// Run says what a run of the entries from to to-1 needs here beyond them
	// and Overhead: activations, workspace. Nil: nothing. It may depend on the
	// run in any way: a longer one may need less. A negative answer is an error
	// where it's asked for. Balanced asks thousands of times: it should be
	// quick, and must answer alike each time.
	Run func(from, to int) int64

	// Also are further devices that each hold all of the run too, within budgets of
	// their own: replicas, which take batches in turn.
	Also []Replica
}

// Replica is a further device of a place. Its fields are as those of Device.
type Replica struct {
	Name     string
	Budget   int64
	Overhead int64
	Memory   *Memory
	Run      func(from, to int) int64
}

// replicas are all devices of the place, the first included.
func (d *Device) replicas() []Replica {
	return append([]Replica{{d.Name, d.Budget, d.Overhead, d.Memory, d.Run}}, d.Also...)
}

// Memory is what devices with the same pointer hold their runs in together: the
// host's, under groups of its cores; a GPU's, at both of its places.
//
// Devices of one non-empty Name in one Memory are one device: weights under one
// Shared name lie there once, at whichever of its places they are used. A place's
// own Budget counts them in each run.
type Memory struct {
	Name   string
	Budget int64 // bytes that all their runs together may hold; negative: unlimited
}

// Run is the contiguous entries From to To-1 on one device.
type Run struct{ Device, From, To int }
