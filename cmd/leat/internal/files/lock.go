package files

import "errors"

// ErrLocked says that another process has locked a file.
var ErrLocked = errors.New("another process has locked the file")
