// Package cuda makes NVIDIA GPUs into devices, through the driver's library alone:
// libcuda.so.1 on Linux, nvcuda.dll on Windows. It is loaded when devices are first
// asked for, so a program runs without it, and says why there is no GPU.
//
// A device is a GPU's primary context. A queue is a stream: an operation returns
// when it is enqueued, and its error, if it has one, comes out at the next event.
// A goroutine is locked to its thread only between a queue's Begin and End, for
// there the driver keeps the current context a thread.
//
// Every error that the driver gives is an [*Error]. After some of them, such as an
// illegal access by a kernel, a GPU can't be used any more: errors.Is tells them by
// [ErrLost]. Then all that was enqueued ends with that error, what comes later fails
// at once, and everything can still be closed.
//
// Importing the package registers it with package device.
package cuda

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/leat-dev/leat/device"
)

func init() { device.Register(backend{}) }

// backend implements device.Backend over the driver that the process has loaded.
type backend struct{}

func (backend) Kind() device.Kind { return device.CUDA }

// Discover describes the GPUs that Leat can use. The error says what is wrong with
// the others, or why there is none.
func (backend) Discover() ([]device.Info, error) {
	d, count, err := process.machine()
	if err != nil {
		return nil, err
	}
	// Each needs a context for a moment, which takes the driver tenths of a second.
	looked, failed := make([]device.Info, count), make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { looked[i], failed[i] = d.look(i, count) })
	}
	all.Wait()
	var infos []device.Info
	var errs []string
	for i := range count {
		if failed[i] != nil {
			errs = append(errs, failed[i].Error())
			continue
		}
		infos = append(infos, looked[i])
	}
	if errs != nil {
		err = errors.New(strings.Join(errs, "; "))
	}
	return infos, err
}

// Resolve describes the GPU called cuda:N. A GPU has no threads to limit.
func (backend) Resolve(name string, _ int) ([]device.Info, error) {
	d, i, count, err := find(name)
	if err != nil {
		return nil, err
	}
	info, err := d.look(i, count)
	if err != nil {
		return nil, err
	}
	return []device.Info{info}, nil
}

// Open opens the GPU called cuda:N as a *Device.
func (backend) Open(name string) (device.Device, error) {
	d, i, count, err := find(name)
	if err != nil {
		return nil, err
	}
	info, ordinal, err := d.describe(i, count)
	if err != nil {
		return nil, err
	}
	return open(d, ordinal, info)
}

// machine returns the driver, and how many GPUs it has.
func (l *library) machine() (*driver, int, error) {
	d, err := l.driver()
	if err != nil {
		return nil, 0, err
	}
	count, err := d.count()
	if err == nil && count == 0 {
		err = errors.New("the driver is there, but it has no GPU")
	}
	return d, count, err
}

// find returns the number of the GPU of that name, among how many.
func find(name string) (d *driver, i, count int, err error) {
	if i, err = parseName(name); err != nil {
		return nil, 0, 0, err
	}
	if d, count, err = process.machine(); err != nil {
		return nil, 0, 0, err
	}
	if i >= count {
		return nil, 0, 0, fmt.Errorf("%s isn't there: there %s", name, areThere(count))
	}
	return d, i, count, nil
}

// parseName returns N of cuda:N. Anything else is a *device.ListError.
func parseName(name string) (int, error) {
	spec, ok := strings.CutPrefix(name, "cuda:")
	if !ok {
		return 0, &device.ListError{Entry: name, Reason: "name one GPU, such as cuda:0"}
	}
	n, err := strconv.ParseUint(spec, 10, 31)
	if err != nil || nameOf(int(n)) != name {
		return 0, &device.ListError{Entry: name, Reason: "after the : stands a GPU's number, as in cuda:0"}
	}
	return int(n), nil
}

func nameOf(i int) string { return "cuda:" + strconv.Itoa(i) }

// areThere lists the names of so many GPUs: "are cuda:0 and cuda:1".
func areThere(count int) string {
	switch count {
	case 1:
		return "is only " + nameOf(0)
	case 2:
		return "are " + nameOf(0) + " and " + nameOf(1)
	}
	return "are " + nameOf(0) + " to " + nameOf(count-1)
}
