package stage

import (
	"fmt"

	"github.com/leat-dev/leat/device"
)

// Position describes a stage's position in a pipeline, for a program that connects stages
// itself; package pipeline does so for its users.
//
// If stages have replicas, each batch takes a route, which leads through one replica of
// each stage; see [Replicas]. A replica is on Routes/Replicas routes, and keeps the pages
// of each of them.
type Position struct {
	Number   int      // the number of the stage, from 0
	Last     bool     // the stage is the last one, and delivers the results that Want names
	Replicas Replicas // the number of replicas of this stage
	Routes   int      // the number of routes in the pipeline, a multiple of Replicas; 0 means 1

	// Host makes the stage copy its output to the host's memory, for a link that marshals
	// messages. The link must call a batch's Wait before it marshals the message.
	Host bool

	// Before has one entry for each replica of the stage before, by its number. Entries of
	// replicas that are on no route with this one may be zero. For the first stage of a
	// pipeline it is empty: that reads Config.Input numbers a row from the message's
	// Input, or the header alone.
	Before []Upstream
}

// Upstream describes the activations that a stage receives from the stage before it.
type Upstream struct {
	Device device.Device // the device that holds them; nil: they are in Message.Input, in the host's memory
	Width  int           // float32s in a row; 0: no activations are received
}

// upstream returns what the stage receives from each replica before it, and the width of
// a row. For a first stage with an input, the sender counts as a replica.
func (p Position) upstream(c Config) (all []Upstream, width int, err error) {
	all = p.Before
	if len(all) == 0 && c.Input > 0 {
		all = []Upstream{{Width: c.Input}}
	}
	for _, u := range all {
		switch {
		case u.Width == 0:
		case width == 0:
			width = u.Width
		case u.Width != width:
			return nil, 0, fmt.Errorf("a replica of the stage before sends rows of %d numbers, and another one rows of %d", width, u.Width)
		}
	}
	return all, width, nil
}
