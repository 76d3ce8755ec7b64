package stagetest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leat-dev/leat/internal/emulator"
)

// emulated has the names of the running tests that have an emulated machine.
var emulated struct {
	sync.Mutex
	tests []string
}

// emulate makes the CUDA driver an emulated machine until the test and its subtests end.
func emulate(t testing.TB, gpus int) {
	t.Helper()
	emulated.Lock()
	defer emulated.Unlock()
	for _, name := range emulated.tests {
		if t.Name() == name || strings.HasPrefix(t.Name(), name+"/") {
			return
		}
	}
	t.Cleanup(func() { // runs after the emulator's own cleanup, which checks that everything is freed
		emulated.Lock()
		defer emulated.Unlock()
		emulated.tests = slices.DeleteFunc(emulated.tests, func(name string) bool { return name == t.Name() })
	})
	emulator.Use(t, emulator.Machine{GPUs: gpus})
	emulated.tests = append(emulated.tests, t.Name())
}
