package driver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/leat-dev/leat/device"
)

// Backend is the backend for the GPUs of one driver, which are named cuda:0, cuda:1 and so
// on after their kind. It implements device.Backend.
type Backend struct {
	Of   device.Kind            // the kind of the GPUs
	Load func() (Driver, error) // returns the process's driver, and loads it if necessary
}

// Kind returns the kind of GPU.
func (b Backend) Kind() device.Kind { return b.Of }

// Discover describes the GPUs that Leat can use. The error says what is wrong with the
// others or, if there is no GPU, why.
func (b Backend) Discover() ([]device.Info, error) {
	d, count, err := b.machine()
	if err != nil {
		return nil, err
	}
	// Query the GPUs concurrently: making a context for each takes tenths of a second.
	queried, failed := make([]device.Info, count), make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { queried[i], failed[i] = b.query(d, i, count) })
	}
	all.Wait()
	var infos []device.Info
	var errs []string
	for i := range count {
		if failed[i] != nil {
			errs = append(errs, failed[i].Error())
			continue
		}
		infos = append(infos, queried[i])
	}
	if errs != nil {
		err = errors.New(strings.Join(errs, "; "))
	}
	return infos, err
}

// Resolve describes the GPU with that name. A limit on CPU threads has no effect.
func (b Backend) Resolve(name string, _ int) ([]device.Info, error) {
	d, i, count, err := b.find(name)
	if err != nil {
		return nil, err
	}
	info, err := b.query(d, i, count)
	if err != nil {
		return nil, err
	}
	return []device.Info{info}, nil
}

// Open opens the GPU with that name as a *Device.
func (b Backend) Open(name string) (device.Device, error) {
	d, i, count, err := b.find(name)
	if err != nil {
		return nil, err
	}
	info, handle, err := b.describe(d, i, count)
	if err != nil {
		return nil, err
	}
	return open(d, handle, info)
}

// machine returns the driver and the number of its GPUs. It is an error if there is none.
func (b Backend) machine() (Driver, int, error) {
	d, err := b.Load()
	if err != nil {
		return nil, 0, err
	}
	count, err := d.Count()
	if err == nil && count == 0 {
		err = errors.New("the driver is there, but it has no GPU")
	}
	return d, count, err
}

// query describes GPU i of count, including its free memory. For that it retains the GPU's
// context during the call; if the device is open, its context exists already.
func (b Backend) query(d Driver, i, count int) (device.Info, error) {
	info, handle, err := b.describe(d, i, count)
	if err != nil {
		return info, err
	}
	g, err := retain(d, info.Name, handle)
	if err != nil {
		return info, err
	}
	info.Free, info.Memory, err = g.memory()
	if e := g.release(); err == nil {
		err = e
	}
	return info, err
}

// describe returns the description of GPU i of count as far as it is known without a
// context, and the driver's handle for the GPU.
func (b Backend) describe(d Driver, i, count int) (device.Info, int32, error) {
	name := b.nameOf(i)
	handle, err := d.Handle(i)
	if err != nil {
		return device.Info{Name: name, Kind: b.Of}, 0, named(err, name)
	}
	info, err := d.Describe(handle, name)
	info.Name, info.Kind = name, b.Of
	if err != nil {
		return info, 0, named(err, name)
	}
	info.Peers = b.peers(d, i, count, handle)
	return info, handle, nil
}

// named sets the device's name in a driver's error that has none.
func named(err error, name string) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Device == "" {
		e.Device = name
	}
	return err
}

// peers returns the names of the GPUs whose memory GPU i can read. It leaves out a GPU for
// which the query fails, because such a GPU's fault must not make GPU i unusable.
func (b Backend) peers(d Driver, i, count int, handle int32) (names []string) {
	calls := d.Calls()
	for j := range count {
		if j == i {
			continue
		}
		other, err := d.Handle(j)
		if err != nil {
			continue
		}
		if reach, failed := calls.CanAccessPeer(handle, other); failed == nil && reach {
			names = append(names, b.nameOf(j))
		}
	}
	return names
}

// find returns the driver, the number of the GPU with that name, and the count of GPUs.
func (b Backend) find(name string) (d Driver, i, count int, err error) {
	if i, err = b.parseName(name); err != nil {
		return nil, 0, 0, err
	}
	if d, count, err = b.machine(); err != nil {
		return nil, 0, 0, err
	}
	if i >= count {
		return nil, 0, 0, fmt.Errorf("%s does not exist: there %s", name, b.areThere(count))
	}
	return d, i, count, nil
}

// parseName returns the N of "cuda:N". It returns a *device.ListError for any other name.
func (b Backend) parseName(name string) (int, error) {
	spec, ok := strings.CutPrefix(name, b.Of.String()+":")
	if !ok {
		return 0, &device.ListError{Entry: name, Reason: "name one GPU, such as " + b.nameOf(0)}
	}
	n, err := strconv.ParseUint(spec, 10, 31)
	if err != nil || b.nameOf(int(n)) != name {
		return 0, &device.ListError{Entry: name, Reason: "the colon must be followed by a GPU's number, as in " + b.nameOf(0)}
	}
	return int(n), nil
}

func (b Backend) nameOf(i int) string { return b.Of.String() + ":" + strconv.Itoa(i) }

// areThere returns the part of a sentence that names the GPUs: "are cuda:0 and cuda:1".
func (b Backend) areThere(count int) string {
	switch count {
	case 1:
		return "is only " + b.nameOf(0)
	case 2:
		return "are " + b.nameOf(0) + " and " + b.nameOf(1)
	}
	return "are " + b.nameOf(0) + " to " + b.nameOf(count-1)
}
