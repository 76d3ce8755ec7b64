// Package emulator makes tests use an emulated CUDA driver: a libcuda.so.1 that runs the kernels of
// internal/gpukernels/source on the CPU, with the threads of a block as fibers and streams as
// threads. The folder driver has its source in C++; make emulator builds it.
//
// Any program that loads the library, which LEAT_CUDA_LIBRARY can name, gets the machine that these
// environment variables describe when it first calls the driver:
//
//	LEAT_EMULATED_GPUS=4            the number of GPUs, from 0 to 16; default 1
//	LEAT_EMULATED_GPU_MEMORY=64MiB  the memory of each GPU; default 1GiB
//	LEAT_EMULATED_DRIVER=12040      the driver's version; default 12080
//	LEAT_EMULATED_PEER=0            no GPU can access another's memory; with 2, the driver
//	                                says that it can, but copies don't arrive
//	LEAT_EMULATED_FAULT=list        faults, separated by commas:
//	  cuMemAlloc:3     the third call of the function (named without _v2) fails with its usual error
//	  cuMemAlloc:3+    the third call and all later ones fail
//	  cuMemAlloc:3@1   only calls on GPU 1 are counted
//	  cuInit:1=999     the call fails with error 999
//	  vanish:1@40      GPU 1 is lost at its 40th launch, with all work in progress
//	  slow:1@2ms       each launch on GPU 1 takes at least 2 ms
//	  busy:0           the context of GPU 0 can't be retained
//	LEAT_EMULATED_RACES=1           detects races between the threads of a launch, see below
//
// The emulator prints and keeps a report of errors that a GPU would hide, or for which it would
// only fail:
//
//   - Accesses outside an allocation, to freed memory, misaligned, or to another GPU's memory
//     without peer access; indices outside a shared array; and threads that wait for each other
//     forever. The context then fails, as on a GPU.
//   - Races between streams: two streams access the same bytes, at least one of them writes, and
//     neither an event nor a wait of the host orders the accesses. Detection uses vector clocks,
//     so it doesn't depend on the actual order. Copies are checked by byte, and kernels in units
//     of 16 bytes, or larger units in allocations of more than 512 KiB.
//   - If enabled, races between threads of one launch: two threads access the same bytes, at least
//     one of them writes, and no barrier orders the accesses. That is the case for threads of two
//     blocks, for threads of two warps without a block barrier between the accesses, and for
//     threads of one warp without any barrier between them. A shuffle is not a barrier, because
//     CUDA doesn't guarantee that it orders memory accesses. Detection is exact to the byte, and
//     makes kernels two to three times as slow.
//   - Memory that is freed before the host knows that work on it is done, and a pinned source that
//     the host modifies before its copy is done.
//   - Launches with a block size or a parameter size that the kernel doesn't have; PTX that is not
//     of the emulator's sources; calls without a current context; and resources that remain in a
//     context when its last reference is released.
//
// Memory is allocated in pages of 2 MiB, as on a GPU: a buffer of more than 1 MiB uses whole pages.
//
// Memory that was never written contains a value that is a NaN as a float32. This includes shared
// memory, and a pinned destination until its copy is done. In every second launch of a GPU, the
// blocks, warps and lanes run in reverse order.
package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Variable is the name of the environment variable with the path of the library that package cuda
// loads.
const Variable = "LEAT_CUDA_LIBRARY"

// races is the name of the environment variable that enables the detection of races in launches.
const races = "LEAT_EMULATED_RACES"

// Machine is the machine that the driver emulates. The zero Machine has one GPU of 1 GiB.
type Machine struct {
	GPUs   int    // the number of GPUs; 0 means 1, and -1 means none
	Memory string // the memory of each GPU, such as "64MiB"
	Fault  string // as in LEAT_EMULATED_FAULT: "cuMemAlloc:3,slow:1@2ms"
	Driver int    // the driver's version; 0 means 12080
	NoPeer bool   // whether no GPU can access another's memory

	LossyPeer bool // whether the driver reports peer access, but copies don't arrive

	Races bool // whether races in launches are detected; LEAT_EMULATED_RACES=1 enables it for all machines
}

// text returns the machine in the format of the library's function leatEmulatorConfigure.
func (m Machine) text() string {
	lines := []string{"LEAT_EMULATED_FAULT=" + m.Fault}
	switch {
	case m.GPUs < 0:
		lines = append(lines, "LEAT_EMULATED_GPUS=0")
	case m.GPUs > 0:
		lines = append(lines, "LEAT_EMULATED_GPUS="+strconv.Itoa(m.GPUs))
	}
	if m.Memory != "" {
		lines = append(lines, "LEAT_EMULATED_GPU_MEMORY="+m.Memory)
	}
	if m.Driver != 0 {
		lines = append(lines, "LEAT_EMULATED_DRIVER="+strconv.Itoa(m.Driver))
	}
	switch {
	case m.NoPeer:
		lines = append(lines, "LEAT_EMULATED_PEER=0")
	case m.LossyPeer:
		lines = append(lines, "LEAT_EMULATED_PEER=2")
	}
	if m.Races || os.Getenv(races) == "1" {
		lines = append(lines, races+"=1")
	}
	return strings.Join(lines, "\n")
}

// Library returns the path of the emulated driver, build/emulator/libcuda.so.1 in the module that
// contains the working directory, or "" if it has not been built.
func Library() string {
	root, err := moduleRoot()
	if err != nil {
		return ""
	}
	path := library(root)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func library(root string) string { return filepath.Join(root, "build", "emulator", "libcuda.so.1") }

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod in the working directory or above it")
		}
		dir = up
	}
}

// current returns the library's path. It is an error if the library is not built, or older than its
// sources.
func current() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := library(root)
	built, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("the emulated driver isn't built: run make emulator (%w)", err)
	}
	for _, folder := range []string{"internal/emulator/driver", "internal/gpukernels/source"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, d fs.DirEntry, err error) error {
			if err != nil || (filepath.Ext(name) != ".h" && filepath.Ext(name) != ".cc") {
				return err
			}
			info, err := d.Info()
			if err == nil && info.ModTime().After(built.ModTime()) {
				err = fmt.Errorf("the emulated driver is older than %s: run make emulator", name)
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return path, nil
}

// Use makes the emulated driver, with the machine m, this process's CUDA library until the test
// ends. It sets LEAT_CUDA_LIBRARY, so the test must not be parallel. After the test and its other
// cleanups, the test fails if the emulator has reported anything or a context is still retained.
//
// If the library is not built, or is older than its sources, the test is skipped; if
// LEAT_REQUIRE_EMULATOR is set, it fails instead.
func Use(t testing.TB, m Machine) {
	t.Helper()
	path, err := current()
	if err == nil {
		err = driver.load(path)
	}
	if err != nil {
		if os.Getenv("LEAT_REQUIRE_EMULATOR") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Setenv(Variable, path)
	Reports() // discard those from before this test
	if err := configure(m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, r := range Reports() {
			t.Errorf("the emulated driver reports: %s", r)
		}
		if err := configure(Machine{}); err != nil {
			t.Errorf("at the test's end: %v", err)
		}
	})
}

// Reports returns what the emulator has reported since the last call, for a test that
// expects a report.
func Reports() []string {
	buffer := make([]byte, 1<<20) // enough for all reports that the emulator keeps
	if driver.takeReports(buffer) == 0 {
		return nil
	}
	text, _, _ := bytes.Cut(buffer, []byte{0})
	return strings.Split(string(text), "\n")
}

func configure(m Machine) error {
	text := m.text()
	switch driver.configure(text) {
	case 0:
		return nil
	case 1:
		return errors.New("a context of an emulated GPU is still retained: close all devices first")
	default:
		return fmt.Errorf("the emulated driver can't parse %q: %s", text, strings.Join(Reports(), "; "))
	}
}
