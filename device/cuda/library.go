package cuda

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/device/internal/dynlib"
)

// LibraryVariable is the name of an environment variable. Its value, if not empty, is the path
// of a library to use instead of the system's CUDA driver.
const LibraryVariable = "LEAT_CUDA_LIBRARY"

// libraryName returns the name of the driver's library: that of the driver's packages on
// Linux, and that in the system's directory on Windows.
func libraryName() string {
	if runtime.GOOS == "windows" {
		return "nvcuda.dll"
	}
	return "libcuda.so.1"
}

// process is the process's driver. It is never unloaded, because the driver has threads of its
// own.
var process library

// library is a driver that is loaded when it is first needed.
type library struct {
	mu     sync.Mutex
	loaded *cuda
}

// load does what driver does, with the signature of a driver.Backend's Load.
func (l *library) load() (driver.Driver, error) {
	d, err := l.driver()
	if err != nil {
		return nil, err
	}
	return d, nil
}

// driver returns the driver, ready for use. If it can't be loaded or initialized, the next
// call tries again, since the environment may have changed.
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

// open loads a library. path is a path or, if system is true, a name to be looked up in the
// system's directories.
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
		// An old driver may lack functions, so prefer the error about its version.
		if err == nil {
			err = d.check()
		} else {
			err = fmt.Errorf("%s lacks the function %s: it is not a CUDA driver that Leat can use", path, symbolNames[s])
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

// Calls returns the library's functions, for use by one goroutine at a time.
func (d *cuda) Calls() driver.Calls { return &calls{cuda: d} }

// The oldest driver that supports the version of the kernels' PTX.
const (
	oldestDriver = 12040 // in the form of cuDriverGetVersion: 1000·major + 10·minor
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

// start initializes the driver. It may be called several times.
func (d *cuda) start() error {
	c := calls{cuda: d}
	if err := c.do(cuInit, 0); err != nil {
		return err
	}
	return nil
}
