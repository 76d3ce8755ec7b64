package pipeline

import (
	"runtime/metrics"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
)

// What a process needs besides what its stages hold. The numbers are measured ones,
// rounded up: of a process that serves a small model about 7 MiB are anonymous memory,
// and 12 MiB are pages of the program's file, of which the kernel keeps what runs.
const (
	reserveGPU     = 256 << 20
	reserveProcess = 20 << 20
	pageTables     = 512 // there is a byte of page tables for so many of memory, in pages of 4 KiB
)

// hostReserve returns the bytes of the host's memory to leave free, of which so many
// are free now, and the sender of the batches needs some.
func (s *Site) hostReserve(free, sender int64) int64 {
	if s.config.Reserve >= 0 {
		return s.config.Reserve
	}
	return reserveProcess + s.heap + free/pageTables + sender
}

// reserve returns the bytes to leave free in a device's memory.
func (p *Plan) reserve(d device.Info) int64 {
	switch {
	case d.HostMemory:
		return p.site.hostReserve(d.Free, p.config.State.Host)
	case p.config.Reserve >= 0:
		return p.config.Reserve
	}
	return reserveGPU
}

// reserved returns the bytes that are left free in a memory of the plan's places.
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

// heapBytes returns the size of the heap's objects. The collector lets the heap grow by
// as much again before it runs.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}
