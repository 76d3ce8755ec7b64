package pipeline_test

import (
	"context"
	"sync"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

// line is a Line whose finished batches come out of a channel.
type line struct {
	*pipeline.Line
	done  chan *stage.Batch
	close sync.Once
}

// startLine starts a plan as such a line.
func startLine(ctx context.Context, plan *pipeline.Plan) (*line, error) {
	l := &line{done: make(chan *stage.Batch, plan.InFlight()*plan.Routes())}
	var err error
	l.Line, err = pipeline.OpenLine(ctx, plan, pipeline.Handler{Finished: func(b *stage.Batch) { l.done <- b }})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Done is where batches come out. It is closed by Shutdown or Close, after the last.
func (l *line) Done() <-chan *stage.Batch { return l.done }

func (l *line) Shutdown(ctx context.Context) error {
	err := l.Line.Shutdown(ctx)
	l.close.Do(func() { close(l.done) })
	return err
}

func (l *line) Close() error {
	err := l.Line.Close()
	l.close.Do(func() { close(l.done) })
	return err
}
