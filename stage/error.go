package stage

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
)

// Error is what went wrong in a stage, with where it was.
type Error struct {
	Stage  int    // its place in the pipeline, from 0
	Layers string // what it runs: "embedding, blocks 0-3"
	Layer  string // the one layer, where that is known
	Device string // what it runs on: "cuda:0"
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	at := ""
	if e.Layer != "" && e.Layer != e.Layers {
		at = ", in " + e.Layer
	}
	return fmt.Sprintf("stage %d (%s) on %s%s: %v", e.Stage, e.Layers, e.Device, at, e.Err)
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// Panic is a panic that a stage caught, as an error.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error. The stack is left to those who ask for it.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns the value that was panicked with, if it was an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

func caught(value any) *Panic { return &Panic{value, debug.Stack()} }

// Describe names layers shortly: those called "block N" with consecutive
// numbers become "blocks N-M".
func Describe(layers []Layer) string {
	var parts []string
	for i := 0; i < len(layers); {
		first, ok := blockNumber(layers[i].Name())
		if !ok {
			parts = append(parts, layers[i].Name())
			i++
			continue
		}
		last := first
		for i++; i < len(layers); i++ {
			n, ok := blockNumber(layers[i].Name())
			if !ok || n != last+1 {
				break
			}
			last = n
		}
		if first == last {
			parts = append(parts, fmt.Sprintf("block %d", first))
		} else {
			parts = append(parts, fmt.Sprintf("blocks %d-%d", first, last))
		}
	}
	return strings.Join(parts, ", ")
}

func blockNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "block ")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}
