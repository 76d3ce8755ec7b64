package pipeline

import (
	"runtime/metrics"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
)

// The memory that a process needs besides its stages. The numbers were measured and
// rounded up: a process that serves a small model has about 7 MiB of anonymous memory,
// and maps 12 MiB of the program's file.
const (
	reserveGPU     = 256 << 20
	reserveProcess = 20 << 20
	pageTables     = 512 // the kernel keeps a byte of page tables for this many bytes in pages of 4 KiB
)

// hostReserve returns how many bytes of the host's memory to leave free. free bytes are
// free now, and the sender of the batches needs sender bytes.
func (s *Site) hostReserve(free, sender int64) int64 {
	if s.config.reserve >= 0 {
		return s.config.reserve
	}
	return reserveProcess + s.heap + free/pageTables + sender
}

// reserve returns how many bytes to leave free in a device's memory.
func (p *Plan) reserve(d device.Info) int64 {
	switch {
	case d.HostMemory:
		return p.site.hostReserve(d.Free, p.config.state.Host)
	case p.config.reserve >= 0:
		return p.config.reserve
	}
	return reserveGPU
}

// reserved returns how many bytes the plan leaves free in a memory.
func (p *Plan) reserved(m *packer.Memory) int64 {
	for _, place := range p.site.places {
		for _, at := range place.Each() {
			if m != nil && at.Info.MemoryName() == m.Name && !at.Info.Imagined {
				return p.reserve(at.Info)
			}
		}
	}
	return 0
}

// heapBytes returns the size of the objects on the Go heap. The heap may grow by that size
// before the garbage collector runs.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}
