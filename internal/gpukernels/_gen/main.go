// Command gen compiles the kernels to PTX, and checks the PTX that is there:
//
//	make kernels         writes internal/gpukernels/ptx/kernels.ptx
//	make kernels-check   compiles again and compares, then assembles for every GPU
//
// Compiler and assembler are wheels of the Python package index, fetched into a folder
// once. Neither needs a GPU. Linux only.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/leat-dev/leat/internal/gpukernels/source"
)

func main() {
	log.SetFlags(0)
	ptx := flag.String("ptx", "../ptx/kernels.ptx", "the PTX `file`")
	wheels := flag.String("wheels", "../../../build/wheels", "the `folder` that compiler and assembler are fetched into")
	check := flag.Bool("check", false, "compare and assemble instead of writing")
	table := flag.String("table", "", "with -check: also write the table to this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	if *check {
		err = verify(ctx, *wheels, *ptx, *table)
	} else {
		err = write(ctx, *wheels, *ptx)
	}
	var missing *missingError
	if *check && errors.As(err, &missing) && os.Getenv("REQUIRE_PTXAS") == "" {
		fmt.Println("skipped:", err)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
}

// missingError says that a tool can't be had here.
type missingError struct{ err error }

func (e *missingError) Error() string { return e.err.Error() }
func (e *missingError) Unwrap() error { return e.err }

// compile returns the PTX of the source in the tree.
func compile(ctx context.Context, wheels string) ([]byte, error) {
	home, err := fetch(ctx, wheels, source.Wheel)
	if err != nil {
		return nil, &missingError{err}
	}
	lib, err := filepath.Abs(filepath.Join(home, "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12"))
	if err != nil {
		return nil, err
	}
	n, err := openNVRTC(lib)
	if err != nil {
		return nil, err
	}
	return n.kernels()
}

func write(ctx context.Context, wheels, file string) error {
	made, err := compile(ctx, wheels)
	if err != nil {
		return err
	}
	return os.WriteFile(file, made, 0o644)
}

// verify compares the PTX with what the compiler makes of the source, and says what it
// takes on each GPU. A spill is an error.
func verify(ctx context.Context, wheels, file, table string) error {
	ptx, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	made, err := compile(ctx, wheels)
	if err != nil {
		return err
	}
	if !bytes.Equal(ptx, made) {
		return fmt.Errorf("%s is not what the compiler makes of the source: run make kernels", filepath.Base(file))
	}
	home, err := fetch(ctx, wheels, assembler)
	if err != nil {
		return &missingError{err}
	}
	r, err := assemble(ctx, filepath.Join(home, "nvidia", "cuda_nvcc", "bin", "ptxas"), ptx)
	if err != nil {
		return err
	}
	if err := r.write(os.Stdout); err != nil {
		return err
	}
	if spills := r.spills(); len(spills) > 0 {
		return errors.New(strings.Join(spills, "\n"))
	}
	if table == "" {
		return nil
	}
	f, err := os.Create(table)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, `# What ptxas makes of the kernels

Registers a thread on each GPU; shared memory a block, local memory a thread and what of
it is spilled registers, in bytes, the most of all GPUs. A block has 256 threads. PTX
from NVRTC %s, assembled with %s.
Written by `+"`make kernels-table`"+`; `+"`make kernels-check`"+` fails on a spill.

`, source.Compiler, strings.ReplaceAll(assembler, "==", " "))
	return errors.Join(err, r.write(f), f.Close())
}
