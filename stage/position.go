package stage

import (
	"fmt"

	"github.com/leat-dev/leat/device"
)

// Position is where a stage stands in a pipeline.
//
// Where stages have replicas, a batch travels by a route, which leads through one
// replica of each stage; see Replicas. A replica serves Routes/Replicas routes and
// keeps the pages of each of them, one route after another.
type Position struct {
	Number   int      // of the stage, from 0
	Last     bool     // the results are wanted, as the batch's Want says
	Replicas Replicas // of this stage
	Routes   int      // of the pipeline, a multiple of Replicas; 0 means 1

	// Host says that what the stage computes is to be brought to the host's memory,
	// because the link behind it marshals messages. The link must Wait for a batch
	// before it marshals the message.
	Host bool

	// Before describes where activations come from: one entry for each replica of
	// the stage before, by its number. Entries for replicas that share no route
	// with this one may be zero. It is empty for the first stage of a pipeline,
	// which reads Config.Input numbers a row from the message's Input, or nothing.
	Before []Upstream
}

// Upstream describes where the activations lie that a stage receives. It is all
// that a stage knows about the stage before it.
type Upstream struct {
	Device device.Device // the device in whose memory they lie; nil: they are in the message's Input, in the host's memory
	Width  int           // float32s in a row; 0 if nothing comes from there
}

// upstream returns what the stage receives from each replica before it, the first
// stage's caller being one, and the width of all of them.
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
			return nil, 0, fmt.Errorf("the stage before hands on rows of %d numbers, and one of its replicas rows of %d", width, u.Width)
		}
	}
	return all, width, nil
}
