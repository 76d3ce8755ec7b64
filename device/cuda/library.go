package cuda

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/device/internal/dynlib"
)

// LibraryVariable is the environment variable that names the driver's library, where
// it isn't the system's own.
const LibraryVariable = "LEAT_CUDA_LIBRARY"

// libraryName is what the driver's packages call it on Linux, and what the driver puts
// into the system's directory on Windows.
func libraryName() string {
	if runtime.GOOS == "windows" {
		return "nvcuda.dll"
	}
	return "libcuda.so.1"
}

// process has the driver that the process has loaded. It stays loaded: the driver
// has threads of its own.
var process library

// library is a driver that is loaded when it is first asked for.
type library struct {
	mu     sync.Mutex
	loaded *cuda
}

// load is driver as a backend asks for it.
func (l *library) load() (driver.Driver, error) {
	d, err := l.driver()
	if err != nil {
		return nil, err
	}
	return d, nil
}

// driver returns the driver, ready for use. While it can't be had, each call tries
// again, since the environment may have changed.
func (l *library) driver() (*cuda, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded == nil {
		path, reason := libraryName(), "no NVIDIA driver: "
		named := os.Getenv(LibraryVariable)
		if named != "" {
			path, reason = named, LibraryVariable+": "
		}
		d, err := open(path, named == "")
		if err != nil {
			return nil, fmt.Errorf("%s%w", reason, err)
		}
		l.loaded = d
	}
	if err := l.loaded.check(); err != nil {
		return nil, err
	}
	return l.loaded, l.loaded.start()
}

// open loads the library at path, or of that name in the system's directories; system
// says that the name is the system's.
func open(path string, system bool) (*cuda, error) {
	if !dynlib.Supported {
		return nil, fmt.Errorf("there is no CUDA for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	handle, err := dynlib.Open(path, system)
	if err != nil {
		return nil, err
	}
	d := &cuda{path: path}
	for s := range symbols {
		if d.entry[s], err = dynlib.Find(handle, symbolNames[s]); err == nil && s > cuDriverGetVersion {
			continue
		}
		// A driver that is too old may lack functions: then its age tells more.
		if err == nil {
			err = d.check()
		} else {
			err = fmt.Errorf("%s lacks the function %s: it is no CUDA driver that Leat can use", path, symbolNames[s])
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// cuda is the driver's library. It implements driver.Driver.
type cuda struct {
	path  string
	entry [symbols]uintptr
}

// Calls returns the library's functions for one goroutine at a time.
func (d *cuda) Calls() driver.Calls { return &calls{cuda: d} }

// The oldest driver that reads the kernels' PTX.
const (
	oldestDriver = 12040 // as cuDriverGetVersion counts: 1000·major + 10·minor
	oldestNames  = "CUDA 12.4 or newer (550.54 or later on Linux, 551.61 on Windows)"
)

// check returns an error if the driver is too old.
func (d *cuda) check() error {
	version, err := d.version()
	if err != nil {
		return err
	}
	if version < oldestDriver {
		return fmt.Errorf("%s: Leat needs a driver for %s, this one is for %d.%d",
			d.path, oldestNames, version/1000, version%1000/10)
	}
	return nil
}

// start makes the driver ready. It may be called again.
func (d *cuda) start() error {
	c := calls{cuda: d}
	if err := c.do(cuInit, 0); err != nil {
		return err
	}
	return nil
}
