package pipeline

import (
	"errors"
	"time"

	"github.com/leat-dev/leat/stage"
)

// EngineOption marks an Option as one of those that an engine of package generate can
// be made with, too. It does nothing.
func (Option) EngineOption() {}

// Gathering is what the options say about how rows are gathered into batches. A
// [Pipeline] does so itself. Package generate, which forms the batches of a [Line] in
// its own way, follows it too.
type Gathering struct {
	MaxWait time.Duration // see WithMaxWait
	Backlog int           // see WithBacklog
}

// Gathering returns what the options of the survey say about gathering, for a caller
// that forms the batches of a Line itself. It returns an error if one of the options
// has an effect in a Pipeline only: WithInput, WithAhead,
// WithIsolation and WithState.
func (s *Site) Gathering() (Gathering, error) {
	c := &s.config
	var err error
	switch {
	case c.Input != 0:
		err = errors.New("pipeline.WithInput has no effect here: the first layer reads the header of a batch")
	case c.Ahead != 0:
		err = errors.New("pipeline.WithAhead has no effect here: it is for Pipeline.Map")
	case !c.Isolate:
		err = errors.New("pipeline.WithIsolation has no effect here: a batch that failed is not tried again")
	case c.State != stage.Config{}:
		err = errors.New("pipeline.WithState has no effect here: the state is chosen when the layers are placed")
	}
	return Gathering{MaxWait: c.MaxWait, Backlog: c.Backlog}, err
}
