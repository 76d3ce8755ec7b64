package stagetest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leat-dev/leat/internal/emulator"
)

// emulated are the tests for whose time there is an emulated machine.
var emulated struct {
	sync.Mutex
	tests []string
}

// emulate makes an emulated machine for the time of a test and of those within it.
func emulate(t testing.TB, gpus int) {
	t.Helper()
	emulated.Lock()
	defer emulated.Unlock()
	for _, name := range emulated.tests {
		if t.Name() == name || strings.HasPrefix(t.Name(), name+"/") {
			return
		}
	}
	t.Cleanup(func() { // after the emulator's own, which looks whether all is freed
		emulated.Lock()
		defer emulated.Unlock()
		emulated.tests = slices.DeleteFunc(emulated.tests, func(name string) bool { return name == t.Name() })
	})
	emulator.Use(t, emulator.Machine{GPUs: gpus})
	emulated.tests = append(emulated.tests, t.Name())
}
