package stage

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
)

// Error is an error in a stage. It says where the error occurred.
type Error struct {
	Stage  int    // the stage's number in the pipeline, from 0
	Layers string // the stage's layers, such as "embedding, blocks 0-3"
	Layer  string // the name of the layer that failed; empty if it is not known
	Device string // the name of the stage's device, such as "cuda:0"
	Err    error  // the cause
}

// Error implements error.
func (e *Error) Error() string {
	at := ""
	if e.Layer != "" && e.Layer != e.Layers {
		at = ", in " + e.Layer
	}
	return fmt.Sprintf("stage %d (%s) on %s%s: %v", e.Stage, e.Layers, e.Device, at, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Panic is the error of a batch for which a layer has panicked.
type Panic struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the goroutine at that time, as debug.Stack returns it
}

// Error implements error. The text doesn't contain the stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns Value if it is an error, and nil otherwise.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

func caught(value any) *Panic { return &Panic{value, debug.Stack()} }

// Describe returns the names of layers, separated by commas. Layers named "block N" with
// consecutive numbers are shortened to "blocks N-M".
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
