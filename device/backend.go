package device

import (
	"fmt"
	"slices"
	"sync"
)

// Backend is one kind of device, as its sub-package registers it. A program has the
// backends whose packages it imports: see ImportPath, and package backends for all.
type Backend interface {
	Kind() Kind

	// Discover describes the devices that can be used. Where there are none, the
	// error says why in words for the user: the library that could not be
	// loaded, the driver's own message. Where some of those that are there can't
	// be used, it says what is wrong with them, beside the others.
	Discover() ([]Info, error)

	// Resolve turns a name of a device list ("cpu", "cpu/3", "cuda:0") into the
	// devices meant, one or more, without opening them. threads is the most CPU
	// threads that a name without core numbers may take in all; 0: no limit. A
	// name that can't be understood is a *ListError; a device that isn't there
	// is another error, that says what is.
	Resolve(name string, threads int) ([]Info, error)

	// Open opens the device of that name, as Resolve's Info gives it: "cpu:0-3".
	Open(name string) (Device, error)
}

var (
	backendsMu sync.RWMutex
	backends   = map[Kind]Backend{}
)

// Register adds a backend. A sub-package calls it when it is imported; a kind
// registered twice is a mistake in the program, and panics.
func Register(b Backend) {
	backendsMu.Lock()
	defer backendsMu.Unlock()
	if _, twice := backends[b.Kind()]; twice {
		panic("device: backend registered twice: " + b.Kind().String())
	}
	backends[b.Kind()] = b
}

// Unavailable is the error of a kind of device that isn't there, or whose backend the
// program doesn't import.
type Unavailable struct {
	Kind   Kind
	Reason string
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

// Backends returns the kinds of devices that the program has backends for, whether or
// not there are such devices, in the order of Kinds.
func Backends() []Kind {
	backendsMu.RLock()
	defer backendsMu.RUnlock()
	return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return backends[k] == nil })
}

// bringers are the packages that bring the device and the op set of a kind into a
// program that imports them.
var bringers = map[Kind]string{
	CPU:  "github.com/leat-dev/leat/kernels/cpu",
	CUDA: "github.com/leat-dev/leat/backends/cuda",
}

// ImportPath returns the path of the package which a program imports for its effect
// to have devices of kind k and their op set. It is empty for a kind that Leat has no
// backend for.
func ImportPath(k Kind) string { return bringers[k] }

// absent says why a program has no backend for a kind, and what to do about it.
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

// Discover lists the devices that can be used, GPUs first, and for each kind that
// has none, or not all that are there, the reason.
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
