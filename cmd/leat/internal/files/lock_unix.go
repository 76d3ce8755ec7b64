//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks a file that is open for writing, until it is closed or the process ends,
// however it ends. It does not wait: if the file is locked, by another process or
// through another open file of this one, it returns ErrLocked. Where the file system
// has no locks, it does nothing.
//
// The lock is advisory: processes that don't ask for it can read and write the file.
func Lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		}
		return nil // other errors are those of file systems without locks
	}
}
