package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks a file that is open for writing, until it is closed or the process ends,
// however it ends. It does not wait: if the file is locked, by another process or
// through another open file of this one, it returns ErrLocked. Where the file system
// has no locks, it does nothing.
//
// Locks of Windows keep other processes from reading and writing. Therefore the lock
// is on one byte far behind the end of any file, and others can read the file.
func Lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return nil // other errors are those of file systems without locks
}
