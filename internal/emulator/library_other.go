//go:build !linux || !(amd64 || arm64)

package emulator

import "errors"

// driver is never loaded, because the emulated driver is only for Linux.
var driver none

type none struct{}

func (none) load(string) error {
	return errors.New("the emulated driver is for Linux on amd64 and arm64")
}
func (none) configure(string) int32   { return 2 }
func (none) takeReports([]byte) int32 { return 0 }
