// Package packer computes placements: which contiguous run of a model's entries is assigned to
// which device.
//
// An entry is a layer of a model: an embedding, a block, an output head, or a layer of the
// caller's own. The package works with numbers only: what an entry needs on each device, and
// how much memory may be used there. It never accesses a file or a device, so it can plan for
// machines that don't exist.
//
// FirstFit and Balanced partition the entries into runs. Check validates a partition from
// elsewhere, and Explain describes what each run needs and why it ended. A Device may have
// replicas, each of which then holds the whole run. A sum of bytes that exceeds the largest
// int64 is that number instead.
package packer

// Cost is the memory and time that one entry needs on one device.
type Cost struct {
	Weights int64   // bytes of weights, in the device's format
	State   int64   // bytes of state that requests keep between batches, such as the key/value pages of one replica
	Shared  string  // a name for shared weights, such as those of a tied head: a run counts weights of the same non-empty name once; see also Memory
	Own     int64   // bytes of Weights that are not shared, such as the head's norm; used if Shared is not empty
	Fixed   float64 // seconds for a batch, independent of its rows; with replicas, the interval between batches
	PerRow  float64 // seconds for each row of a batch
}

// Entry is one layer of a model. Entries are in forward order.
type Entry struct {
	Name     string
	OutBytes int64  // bytes of output activations for each row
	Costs    []Cost // one for each device, in the order of the devices
}

// Device is a position in the pipeline to which one run can be assigned. A device of the
// machine may have several positions; these have the same Name.
type Device struct {
	Name     string
	Budget   int64   // bytes that the run may use; negative means unlimited; 0 means no run
	Overhead int64   // bytes that every run needs besides its entries
	Link     float64 // seconds to receive a byte of activations
	Memory   *Memory // a memory that it has in common with other devices; may be nil

	// Run returns the bytes that a run of the entries from, …, to-1 needs besides these
	// entries and Overhead, for activations and workspace. A nil Run means none. The result
	// may depend on the run in any way; a longer run may need less. A negative result makes
	// the caller return an error. Run must be deterministic and fast, because Balanced calls
	// it thousands of times.
	Run func(from, to int) int64

	// Also are replicas: further devices, each of which holds the whole run, within a
	// budget of its own. The replicas process batches alternately.
	Also []Replica
}

// Replica is a further device that holds the same run. Its fields have the same meaning as
// those of Device.
type Replica struct {
	Name     string
	Budget   int64
	Overhead int64
	Memory   *Memory
	Run      func(from, to int) int64
}

// replicas returns all replicas, including the device itself.
func (d *Device) replicas() []Replica {
	return append([]Replica{{d.Name, d.Budget, d.Overhead, d.Memory, d.Run}}, d.Also...)
}

// Memory is a physical memory that all devices with the same pointer use: the host's memory,
// for several groups of its cores, or a GPU's memory, if the GPU has several positions.
//
// Devices with the same non-empty Name and the same Memory are the same device of the machine:
// weights with the same Shared name are in the memory once, even if several of its runs use
// them. Each Device's own Budget counts them in full.
type Memory struct {
	Name   string
	Budget int64 // bytes that all runs in the memory may use together; negative means unlimited
}

// Run is a run of the contiguous entries From, …, To-1 on a device, given by its index.
type Run struct{ Device, From, To int }
