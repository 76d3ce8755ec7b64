package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/stage"
)

// Line is stages at work, with batches as whoever fills them sees them. A batch
// is taken from Free, filled, given to Submit, comes out of Done, and goes back
// with Release; there are as many as may be in flight. Its methods may be called
// from any goroutine.
//
// A [Pipeline] forms batches from its callers' rows; who needs batches of another
// making, as package generate does, takes a Line.
type Line struct {
	plan    *Plan
	devices *device.Set
	log     *slog.Logger
	stages  []*stage.Stage
	in      stage.Link
	free    chan *stage.Batch
	done    chan *stage.Batch
	stop    context.CancelFunc
	running sync.WaitGroup
	started time.Time

	mu     sync.RWMutex // held for reading while a batch is sent
	closed bool
	once   sync.Once
	failed error
}

// Start opens the plan's devices, loads the layers onto them and starts the
// stages. ctx limits the loading only. When it fails, nothing is left behind.
func (p *Plan) Start(ctx context.Context) (_ *Line, err error) {
	if p.config.Imagined {
		return nil, errors.New("a plan for imagined devices can't be started")
	}
	n := p.stage.InFlight
	l := &Line{
		plan:    p,
		devices: new(device.Set),
		log:     p.config.logger(),
		free:    make(chan *stage.Batch, n),
		done:    make(chan *stage.Batch, n),
	}
	defer func() {
		if err != nil {
			_ = l.release() // the first error tells more
		}
	}()
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	for slot := range n {
		b := stage.NewBatch(slot, p.stage)
		b.Input = l.stages[0].Input(slot)
		l.free <- b
	}
	l.run()
	l.log.Info("pipeline started", "stages", len(l.stages), "inflight", n, "max_batch", p.stage.MaxRows)
	return l, nil
}

func (l *Line) load(ctx context.Context) error {
	p := l.plan
	var loaded, total int64
	for _, s := range p.Stages {
		total += s.Weights
	}
	var before *stage.Stage
	for i, s := range p.Stages {
		d, err := l.devices.Open(s.Device.Name)
		if err != nil {
			return err
		}
		report := func(layer stage.Layer) {
			if cost, err := layer.Cost(s.Device, p.stage); err == nil && p.config.Progress != nil {
				loaded = min(total, loaded+cost.Weights)
				p.config.Progress(loaded, total)
			}
		}
		st, err := stage.Load(ctx, i, d, p.layers[s.From:s.To], before, i == len(p.Stages)-1, p.stage, report)
		if err != nil {
			return err
		}
		l.log.Info("stage loaded", "stage", i, "layers", s.Layers, "device", s.Device.Name, "bytes", s.Bytes())
		l.stages = append(l.stages, st)
		before = st
	}
	return nil
}

// run starts a goroutine a stage and one that waits for what comes out.
func (l *Line) run() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.started = stop, time.Now()
	l.in = stage.NewLink(l.plan.config.depth(0))
	in := l.in
	for i, s := range l.stages {
		from, out := in, stage.NewLink(l.plan.config.depth(i+1))
		l.running.Go(func() { _ = s.Run(ctx, from, out) }) // it ends by Close or by stop
		in = out
	}
	l.running.Go(func() {
		defer close(l.done)
		for {
			b, err := in.Recv(ctx)
			if err != nil {
				return
			}
			if err := b.Wait(ctx); err != nil { // the batch carries it
				l.log.Warn("batch failed", "rows", len(b.Header.Tokens), "error", err)
			}
			l.done <- b // has room for all batches there are
		}
	})
}

// Free is where batches that may be filled are taken from.
func (l *Line) Free() <-chan *stage.Batch { return l.free }

// Submit sends a filled batch, taken from Free, into the first stage. It blocks
// while the link there is full, until ctx ends; then the batch is still the
// caller's.
func (l *Line) Submit(ctx context.Context, b *stage.Batch) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return ErrClosed
	}
	b.Seal()
	return l.in.Send(ctx, b)
}

// Done is where batches come out, in the order of Submit, with their values or
// their error. It is closed by Close, after the last one.
func (l *Line) Done() <-chan *stage.Batch { return l.done }

// Release gives a batch that came out, or was never sent, back to Free.
func (l *Line) Release(b *stage.Batch) {
	b.Reset()
	l.free <- b
}

// Plan is what the pipeline was started from.
func (l *Line) Plan() *Plan { return l.plan }

// StageStats is what one stage has done.
type StageStats struct {
	StagePlan
	stage.Stats
	Share float64 // of the time since the start that it was busy, 0 to 1
}

// Stats is a snapshot, a row a stage.
func (l *Line) Stats() []StageStats {
	since := time.Since(l.started)
	stats := make([]StageStats, len(l.stages))
	for i, s := range l.stages {
		stats[i] = StageStats{StagePlan: l.plan.Stages[i], Stats: s.Stats()}
		stats[i].Share = min(1, float64(stats[i].Busy)/float64(max(1, since)))
	}
	return stats
}

// Close lets what is in flight come out, then ends the stages and frees their
// devices. Batches may still be taken from Done, but their values are gone: who
// wants these takes the batches before. It may be called more than once; each
// call returns when all is ended.
func (l *Line) Close() error {
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.in.Close()
		l.running.Wait()
		l.stop()
		l.failed = l.release()
		l.log.Debug("pipeline closed", "error", l.failed)
	})
	return l.failed
}

func (l *Line) release() error {
	var errs []error
	for _, s := range l.stages {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, l.devices.Close())...)
}
