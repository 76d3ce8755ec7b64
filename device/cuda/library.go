package cuda

import (
	"fmt"
	"os"
	"sync"
)

// LibraryVariable is the environment variable that names the driver's library, where
// it isn't the system's own.
const LibraryVariable = "LEAT_CUDA_LIBRARY"

// process has the driver that the process has loaded. It stays loaded: the driver
// has threads of its own.
var process library

// library is a driver that is loaded when it is first asked for.
type library struct {
	mu     sync.Mutex
	loaded *driver
}

// driver returns the driver, ready for use. While it can't be had, each call tries
// again, since the environment may have changed.
func (l *library) driver() (*driver, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded == nil {
		path, reason := libraryName, "no NVIDIA driver: "
		if named := os.Getenv(LibraryVariable); named != "" {
			path, reason = named, LibraryVariable+": "
		}
		d, err := load(path)
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

// load loads the library at path, or of that name in the system's directories.
func load(path string) (*driver, error) {
	handle, err := openLibrary(path)
	if err != nil {
		return nil, err
	}
	d := &driver{path: path}
	for s := range symbols {
		if d.entry[s], err = lookUp(handle, symbolNames[s]); err == nil && s > cuDriverGetVersion {
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
