// Package packer is the arithmetic of placement: which contiguous run of a
// model's entries goes to which device.
//
// An entry is the embedding, a block, the output head, or a layer of the
// caller's own. The packer sees numbers only: what an entry costs on each
// device, what a device may hold. It never touches a file or a device, so the
// same functions plan for machines that aren't there.
package packer

import "errors"

// Cost is what one entry takes on one device.
type Cost struct {
	Weights int64   // bytes of weights, as they will lie on that device
	State   int64   // bytes that requests leave behind there: key/value pages
	Shared  string  // weights under one non-empty name are counted once a device (a tied head)
	Fixed   float64 // seconds a batch, whatever its rows
	PerRow  float64 // seconds a row
}

// Entry is one layer of a model, in forward order.
type Entry struct {
	Name     string
	OutBytes int64  // bytes of activations a row that it hands on
	Costs    []Cost // one a device, in the order of the devices
}

// Device is a place for a run.
type Device struct {
	Name     string
	Budget   int64   // bytes it may hold; negative: unlimited; 0: it takes nothing
	Overhead int64   // bytes it needs besides its entries: activations, workspace
	Link     float64 // seconds a byte of activations received
}

// Run is the contiguous entries From..To-1 on one device.
type Run struct{ Device, From, To int }

// ErrNoFit says that the entries don't fit the devices' budgets.
var ErrNoFit = errors.New("the model doesn't fit the devices' budgets")
