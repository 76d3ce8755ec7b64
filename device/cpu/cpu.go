// Package cpu is the backend for groups of the machine's cores.
//
// A device has one worker for each of its cores, but no more than GOMAXPROCS. The first
// worker is the goroutine that enqueues an operation; the others are helper goroutines of
// the device. Its queues are synchronous: an operation is done when its call returns.
//
// On Linux, if a device has only some of the process's cores, its helpers are pinned to
// them, and so is the goroutine between a queue's Begin and End. On other systems threads
// can't be pinned: a group of cores only determines the number of workers, and the device's
// description says so.
//
// If the process's control group grants it the time of fewer cores than it may run on
// (docker run --cpus 2), then "cpu" and "cpu/N" have that number of cores, rounded up. In
// that case no thread is pinned: the quota limits time and doesn't reserve cores, and two
// containers that pinned their threads would choose the same cores.
//
// Importing the package registers the backend with package device.
package cpu

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/leat-dev/leat/device"
)

func init() { device.Register(newBackend(processCores(), quota())) }

// backend implements device.Backend over the cores that the process may use,
// ascending.
type backend struct {
	cores   []int // the cores that a name may have
	granted int   // the number of cores, from the first on, that "cpu" and "cpu/N" have
}

func newBackend(cores []int, quota int) backend {
	return backend{cores, max(1, min(len(cores), quota))}
}

func (backend) Kind() device.Kind { return device.CPU }

// Discover describes one device, with all cores that the quota grants.
func (b backend) Discover() ([]device.Info, error) { return describe(b.cores[:b.granted]) }

// Resolve describes the groups of cores that a name stands for, one or more.
func (b backend) Resolve(name string, threads int) ([]device.Info, error) {
	groups, err := parseName(name, b.cores, b.granted, threads)
	if err != nil {
		return nil, err
	}
	return describe(groups...)
}

// Open opens one group of cores, such as "cpu:0-3", as a *Device.
func (b backend) Open(name string) (device.Device, error) {
	infos, err := b.Resolve(name, 0)
	if err != nil {
		return nil, err
	}
	if len(infos) != 1 {
		return nil, fmt.Errorf("%s is %d devices: open one of them, such as %s", name, len(infos), infos[0].Name)
	}
	whole := len(infos[0].Cores) == len(b.cores)
	return open(infos[0], canPin && !whole && b.granted == len(b.cores)), nil
}

func describe(groups ...[]int) ([]device.Info, error) {
	level, err := simd()
	if err != nil {
		return nil, err
	}
	description := strings.TrimSpace(cpuid.CPU.BrandName)
	if description == "" {
		description = runtime.GOARCH + " CPU"
	}
	if !canPin {
		description += " (threads not pinned to cores)"
	}
	total, free := memory()
	infos := make([]device.Info, len(groups))
	for i, cores := range groups {
		infos[i] = device.Info{
			Name:        nameOf(cores),
			Kind:        device.CPU,
			Description: description,
			Memory:      total,
			Free:        free,
			Cores:       cores,
			SIMD:        level,
			HugePages:   hugePages(),
			HostMemory:  true,
		}
	}
	return infos, nil
}
