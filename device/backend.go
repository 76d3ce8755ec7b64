package device

import (
	"fmt"
	"slices"
	"sync"
)

// Backend finds and opens the devices of one kind. Each backend is a package that calls
// Register when it is imported, so a program has the backends whose packages it imports.
// ImportPath names the package of a kind; package backends imports all of them. A
// Backend's methods may be called from any goroutine.
type Backend interface {
	// Kind returns the kind of device that the backend is for.
	Kind() Kind

	// Discover describes the devices that can be used. If there is none, it returns an
	// error that tells the user why: that the driver's library could not be loaded, for
	// example, or the driver's own message. If only some of the machine's devices can be
	// used, it returns those together with an error that says what is wrong with the
	// others.
	Discover() ([]Info, error)

	// Resolve returns the devices that a name in a device list stands for ("cpu",
	// "cpu/3", "cuda:0"), one or more, without opening them. A positive threads limits
	// the CPU threads that a name without core numbers stands for in total; 0 means no
	// limit. A name that can't be parsed is a *ListError. The error for a device that
	// does not exist is of another type, and says which devices exist.
	Resolve(name string, threads int) ([]Info, error)

	// Open opens one device by the name in its Info, such as "cpu:0-3".
	Open(name string) (Device, error)
}

var (
	backendsMu sync.RWMutex
	backends   = map[Kind]Backend{}
)

// Register adds a backend. A backend's package calls it in its init function. Register
// panics if the kind already has a backend.
func Register(b Backend) {
	backendsMu.Lock()
	defer backendsMu.Unlock()
	if _, twice := backends[b.Kind()]; twice {
		panic("device: backend registered twice: " + b.Kind().String())
	}
	backends[b.Kind()] = b
}

// Unavailable is the error for a kind of device of which the machine has no usable
// device, or whose backend the program doesn't import.
type Unavailable struct {
	Kind   Kind
	Reason string // why, in words for the user
}

// Error implements error.
func (u Unavailable) Error() string { return fmt.Sprintf("no %s device: %s", u.Kind, u.Reason) }

func backend(k Kind) (Backend, error) {
	backendsMu.RLock()
	defer backendsMu.RUnlock()
	if b, ok := backends[k]; ok {
		return b, nil
	}
	return nil, Unavailable{k, absent(k)}
}

// Backends returns the kinds of device for which the program has a backend, in the order
// of Kinds. The machine need not have such devices.
func Backends() []Kind {
	backendsMu.RLock()
	defer backendsMu.RUnlock()
	return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return backends[k] == nil })
}

// importPaths holds, for each kind that Leat has a backend for, the package that
// registers both the device backend and the op set.
var importPaths = map[Kind]string{
	CPU:  "github.com/leat-dev/leat/kernels/cpu",
	CUDA: "github.com/leat-dev/leat/backends/cuda",
}

// ImportPath returns the import path of the package that registers the devices of kind k
// and their op set; a program imports it for that effect alone. It returns "" if Leat has
// no backend for the kind.
func ImportPath(k Kind) string { return importPaths[k] }

// absent returns the reason why a program has no backend for a kind, and what to do about
// it.
func absent(k Kind) string {
	path := ImportPath(k)
	switch {
	case path == "":
		return fmt.Sprintf("Leat has no %s backend yet", k)
	case k == CPU:
		return fmt.Sprintf("this program has no %s backend: it must import %q", k, path)
	}
	return fmt.Sprintf("this program has no %s backend: it must import %q, and be built without the tag nogpu", k, path)
}

// Discover returns the devices that can be used, in the order of Kinds: GPUs first. For
// each kind of which no device, or not every device, can be used, missing has the reason.
func Discover() (found []Info, missing []Unavailable) {
	for _, k := range Kinds {
		b, err := backend(k)
		var infos []Info
		if err == nil {
			infos, err = b.Discover()
		}
		found = append(found, infos...)
		switch u := (Unavailable{}); {
		case err == nil:
		case asUnavailable(err, &u):
			missing = append(missing, u)
		default:
			missing = append(missing, Unavailable{k, err.Error()})
		}
	}
	return slices.Clip(found), missing
}

func asUnavailable(err error, u *Unavailable) bool {
	v, ok := err.(Unavailable)
	if ok {
		*u = v
	}
	return ok
}
