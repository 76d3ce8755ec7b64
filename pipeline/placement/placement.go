// Package placement reads and writes placement files: JSON that names a device
// for every layer of a model.
//
//	{"version": 1,
//	 "layers": {"embedding": "cpu", "0": "cpu", "1-2": "rocm:0", "*": "cuda:0", "output": "cpu"},
//	 "fallback": "cpu"}
//
// A key of "layers" is one of
//
//   - a layer's own name: "embedding", or any name of a caller's own layer;
//   - "output", short for "output head";
//   - a number or a range with both ends included: "3" is short for "block 3",
//     and "1-2" for blocks 1 and 2. Where no layer at all is called "block N",
//     numbers are entries in forward order, counted from 0;
//   - "*", which is every layer that no other key names, if there is one.
//
// A name made of digits, signs, spaces and dots alone reads as a number and is
// never a layer's name. Where a layer's name could be taken for another layer's
// key, that key is refused, and the error says which layer to rename.
//
// The value is one entry of a device list, with the same suffixes: "cuda:0",
// "cuda:0=20GiB@3", or with replicas "cuda:0|cuda:1=8GiB". Neighbouring layers with the same string are one
// run; "cpu" and "cpu=1GiB" are two strings, and so two runs. This package knows
// names and numbers only: whether a device is there is for others to find out.
//
// "fallback" may be "cpu": what runs the layers of a device that is missing.
//
// "stages", "expected", "room", "unused" and "fits" are what a plan adds to the same object. A plan can be
// saved, edited and run, and these may stay in it: "stages" must agree with
// "layers", or is an error. Where it divides a run of one device into several
// stages, they stay divided. Its other keys are captions, as the plan's other ones are:
// they must be well-formed, and have no effect.
//
// Everything else in a file is an error with the JSON path of what is wrong.
// placement.schema.json, embedded as [Schema], says the same as far as a schema
// can.
package placement

import (
	_ "embed" // for Schema
	"fmt"
	"io"
	"os"
)

// Version is the version of the format that this package reads and writes.
const Version = 1

// MaxBytes is the size of the largest placement file that is read.
const MaxBytes = 1 << 20

// Schema is the JSON Schema (draft 2020-12) of placement files.
//
//go:embed placement.schema.json
var Schema []byte

// File is a placement as it was read. It doesn't change, and may be used from
// any goroutine.
type File struct {
	name     string
	layers   Layers // in the order of the file
	fallback string
	stages   []Stage // nil: the file has none
}

// Layers is the "layers" object of a placement, with its keys in order.
type Layers []Layer

// Layer is one key of "layers", which stands for one layer or for several, and
// the device that it gives them.
type Layer struct{ Key, Device string }

// Stage is one element of a plan's "stages".
type Stage struct {
	Device string `json:"device"`
	From   int    `json:"from"`   // its first entry, in forward order from 0
	To     int    `json:"to"`     // the entry after its last
	Layers string `json:"layers"` // the same in words
	Bytes  int64  `json:"bytes"`  // all that the device will hold for it: of replicas, the one that holds most
	Budget int64  `json:"budget"` // 0: none; of replicas, the least
}

// Run is the neighbouring entries From to To-1 on one device, in forward order.
type Run struct {
	Device   string // as the file spells it, suffixes included
	From, To int
}

// Error says what is wrong in a placement file, and where.
type Error struct {
	File string
	Path string // JSON path: $.layers["1-2"]
	Err  error
}

// Error implements error, on one line.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.File, e.Path, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// ReadFile reads the placement file at path, as Parse does. It never reads more
// than MaxBytes and one byte.
func ReadFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	return Parse(path, data)
}

// Fallback returns the device that takes the layers of devices that are missing:
// "cpu", or "" where the file gives none.
func (f *File) Fallback() string { return f.fallback }

// At adds to an error about a device, spelled as in a Run, the place in the file
// that first names it. The result is an *Error.
func (f *File) At(device string, err error) error {
	for _, l := range f.layers {
		if l.Device == device {
			return f.wrong(root.member("layers").member(l.Key), err)
		}
	}
	return f.wrong(root.member("layers"), err)
}

func (f *File) wrong(at path, err error) error { return &Error{f.name, string(at), err} }
