// Package emulator makes the emulated CUDA driver the one that a test runs on: a
// libcuda.so.1 that runs the kernels of internal/gpukernels/source on the CPU, a block's threads
// as fibers, and whose streams are threads. Folder driver has its source in C++, make
// emulator builds it.
//
// Any program that loads it (LEAT_CUDA_LIBRARY names it) gets the machine that its
// environment asks for when it first calls the driver:
//
//	LEAT_EMULATED_GPUS=4            from 0 to 16 GPUs; 1
//	LEAT_EMULATED_GPU_MEMORY=64MiB  of each; 1GiB
//	LEAT_EMULATED_DRIVER=12040      the driver's version; 12080
//	LEAT_EMULATED_PEER=0            no GPU has access to another's memory; 2: they have, but
//	                                what they copy doesn't arrive
//	LEAT_EMULATED_FAULT=list        separated by commas:
//	  cuMemAlloc:3     the third call (without _v2) fails with its usual error
//	  cuMemAlloc:3+    all from the third on
//	  cuMemAlloc:3@1   only calls on GPU 1 count
//	  cuInit:1=999     with that error
//	  vanish:1@40      GPU 1 is lost at its 40th launch, with all that is under way
//	  slow:1@2ms       each launch on GPU 1 takes at least that long
//	  busy:0           GPU 0 can't be had
//	LEAT_EMULATED_RACES=1           watches the threads of a launch, see below
//
// It prints and keeps a report of whatever a GPU would hide or only crash at:
//
//   - accesses outside of an allocation, to freed memory, misaligned, or to another
//     GPU's memory without peer access; indices outside of a shared array; threads that
//     wait for each other forever. The context fails then, as on a GPU.
//   - races: work of two streams on the same bytes, one of them writing, that no event
//     and no wait of the host orders. Vector clocks tell, so that it doesn't depend on
//     who ran first. Copies are watched to the byte, kernels to 16 bytes (coarser in
//     allocations of more than 512 KiB).
//   - where it watches them, threads of one launch that touch the same bytes, one of them
//     writing, in an order that nothing makes certain: threads of two blocks, of two warps
//     with no block's barrier between, of one warp with no barrier of either kind between.
//     A shuffle is none: CUDA lets it order no memory. It is exact, to the byte; kernels
//     take two to three times as long.
//   - memory freed before the host knows that the work on it is done; a pinned source
//     that the host changes before its copy is done.
//   - launches of another block or parameter size than the kernel has; PTX that isn't of
//     the emulator's sources; calls without a current context; what is left in a context
//     when it is released for the last time.
//
// Memory is given away in pages of 2 MiB, as a GPU's is: a buffer of more than 1 MiB takes
// whole ones.
//
// Memory that nobody has written holds poison (a NaN as float32), shared memory too, and
// so does a pinned destination until its copy is done. Blocks, warps and lanes run
// backwards in every second launch of a GPU.
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

// Variable names the environment variable by which package cuda finds its library.
const Variable = "LEAT_CUDA_LIBRARY"

// races is the environment variable that has launches watched.
const races = "LEAT_EMULATED_RACES"

// Machine is what the emulated driver has. The zero Machine has one GPU of 1 GiB.
type Machine struct {
	GPUs   int    // 0 is 1; -1 is none
	Memory string // of each GPU, such as "64MiB"
	Fault  string // as LEAT_EMULATED_FAULT: "cuMemAlloc:3,slow:1@2ms"
	Driver int    // the driver's version, such as 12080; 0 is that
	NoPeer bool   // no GPU has access to another's memory

	LossyPeer bool // they have, but what they copy doesn't arrive

	Races bool // watch what a launch's threads do, as LEAT_EMULATED_RACES=1 has it for all machines
}

// text is the machine in the words of leatEmulatorConfigure.
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

// Library returns the path of the emulated driver, build/emulator/libcuda.so.1 of the
// module that the working directory is in, or "" if it hasn't been built.
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

// current returns the library's path, or why it can't be used.
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

// Use makes the emulated driver this process's CUDA library, with that machine, for the
// time of the test: it sets LEAT_CUDA_LIBRARY before package cuda loads it, so the test
// can't be parallel. When the test and its other cleanups are done, it fails if the
// emulator has anything to report or a context is still retained.
//
// Where the library isn't built, or is older than its sources, the test is skipped, or
// fails if LEAT_REQUIRE_EMULATOR is set.
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
	Reports() // those of before are not this test's
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
	buffer := make([]byte, 1<<20) // more than the reports that the emulator keeps
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
		return fmt.Errorf("the emulated driver doesn't understand %q: %s", text, strings.Join(Reports(), "; "))
	}
}
