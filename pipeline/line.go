package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline/histogram"
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
	stages  [][]*stage.Stage // each with its replicas
	free    chan *stage.Batch
	done    chan *stage.Batch
	stop    context.CancelFunc
	running sync.WaitGroup
	started time.Time
	links   [][]stage.Link // into each replica
	traffic *stage.Traffic
	numbers atomic.Uint64 // of batches
	rows    *histogram.Histogram[int]

	mu     sync.RWMutex // held for reading while a batch is sent
	closed bool
	once   sync.Once
	failed error
	depth  int // of the links into the first stage
}

var starting sync.Mutex

// stillFits says whether the budgets hold what the plan needs beside what other
// pipelines of the process have taken since it was made.
func (p *Plan) stillFits() error {
	for _, s := range p.Stages {
		for _, r := range s.Each() {
			if held := device.InUse(r.Device.Name); r.Budget > 0 && r.Bytes() > r.Budget-held {
				return fmt.Errorf("%w: %s on %s needs %s of a budget of %s, of which other pipelines of this process hold %s by now",
					packer.ErrNoFit, r.Layers, r.Device.Name, device.FormatSize(r.Bytes()), device.FormatSize(r.Budget), device.FormatSize(held))
			}
		}
	}
	return nil
}

// Start opens the plan's devices, loads the layers onto them and starts the
// stages. ctx limits the loading only. When it fails, nothing is left behind.
func (p *Plan) Start(ctx context.Context) (_ *Line, err error) {
	if p.config.Imagined {
		return nil, errors.New("a plan for imagined devices can't be started")
	}
	starting.Lock() // two that were planned at the same time must not both fill a budget
	defer starting.Unlock()
	if err := p.stillFits(); err != nil {
		return nil, err
	}
	n := p.stage.InFlight
	l := &Line{
		plan:    p,
		devices: new(device.Set),
		log:     p.config.logger(),
		free:    make(chan *stage.Batch, n),
		done:    make(chan *stage.Batch, n),
		traffic: stage.NewTraffic(),
		rows:    histogram.New(histogram.Rows()),
	}
	started := false
	defer func() {
		if !started { // also where a layer ends the goroutine
			_ = l.release() // the first error tells more
		}
	}()
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	for slot := range n {
		b := stage.NewBatch(slot, p.stage)
		b.Input = l.stages[0][0].Input(slot)
		l.free <- b
	}
	l.run()
	started = true
	l.log.Info("pipeline started", "stages", len(l.stages), "inflight", n, "max_batch", p.stage.MaxRows)
	return l, nil
}

func (l *Line) load(ctx context.Context) error {
	p := l.plan
	var loaded, total int64
	for _, s := range p.Stages {
		total += s.Weights
	}
	var before []*stage.Stage
	for i, s := range p.Stages {
		each := s.Each()
		l.stages = append(l.stages, nil)
		for j, replica := range each {
			d, err := l.devices.Open(replica.Device.Name)
			if err != nil {
				return err
			}
			report := func(layer stage.Layer) {
				if cost, err := layer.Cost(replica.Device, p.stage); err == nil && p.config.Progress != nil {
					loaded = min(total, loaded+cost.Weights)
					p.config.Progress(loaded, total)
				}
			}
			at := stage.Position{Number: i, Last: i == len(p.Stages)-1, Replicas: len(each), Routes: p.routes}
			if i > 0 {
				at.Before = make([]*stage.Stage, len(before))
				for _, n := range met(j, len(each), len(before), p.routes) {
					at.Before[n] = before[n]
				}
			}
			st, err := stage.Load(ctx, at, d, p.layers[s.From:s.To], p.stage, report)
			if err != nil {
				return err
			}
			l.log.Info("stage loaded", "stage", i, "layers", s.Layers, "device", replica.Device.Name, "bytes", replica.Bytes())
			l.stages[i] = append(l.stages[i], st)
		}
		before = l.stages[i]
	}
	return nil
}

// Free is where batches that may be filled are taken from.
func (l *Line) Free() <-chan *stage.Batch { return l.free }

// Submit sends a filled batch, taken from Free, into the first stage, to the
// replica of its Route. It blocks while the link there is full, until ctx ends; then the batch is still the
// caller's.
func (l *Line) Submit(ctx context.Context, b *stage.Batch) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return ErrClosed
	}
	if b.Route < 0 || b.Route >= l.plan.routes {
		return fmt.Errorf("a batch for route %d of %d", b.Route, l.plan.routes)
	}
	b.Seal()
	l.filled(b)
	l.traffic.Enter()
	first := l.links[0]
	err := first[b.Route%len(first)].Send(ctx, b)
	if err != nil {
		l.traffic.Leave()
	}
	return err
}

// Room says that the link to the first stage of a route isn't full, so that a
// Submit by who alone submits wouldn't block. A link without a buffer
// (WithQueue(0)) never has room: to submit is to wait for the stage.
func (l *Line) Room(route int) bool {
	first := l.links[0]
	return first[route%len(first)].Len() < l.depth
}

// Done is where batches come out, those of one route in the order of Submit, with
// their values or their error. It is closed by Close, after the last one.
func (l *Line) Done() <-chan *stage.Batch { return l.done }

// Release gives a batch that came out, or was never sent, back to Free.
func (l *Line) Release(b *stage.Batch) {
	l.emptied(b)
	b.Reset()
	l.free <- b
}

// Plan is what the pipeline was started from.
func (l *Line) Plan() *Plan { return l.plan }

// StageStats is what one stage has done, all of its replicas together.
type StageStats struct {
	StagePlan
	stage.Stats
	Share    float64        // of the time since the start that it was busy, or its device for it, 0 to 1: of its replicas, the mean
	Queue    int            // batches that wait for it now
	Replicas []ReplicaStats // one by one, where there are several
}

// ReplicaStats is what one replica of a stage has done.
type ReplicaStats struct {
	Device device.Info
	stage.Stats
	Share float64
	Queue int
}

// Stats is a snapshot, a row a stage.
func (l *Line) Stats() []StageStats {
	since := time.Since(l.started)
	stats := make([]StageStats, len(l.stages))
	for i, replicas := range l.stages {
		all := &stats[i]
		all.StagePlan = l.plan.Stages[i]
		for j, replica := range all.StagePlan.Each() {
			r := ReplicaStats{Device: replica.Device, Stats: replicas[j].Stats(), Queue: l.links[i][j].Len()}
			r.Share = min(1, float64(r.Busy)/float64(max(1, since)))
			all.Stats = all.Stats.Plus(r.Stats)
			all.Share += r.Share / float64(len(replicas))
			all.Queue += r.Queue
			if len(replicas) > 1 {
				all.Replicas = append(all.Replicas, r)
			}
		}
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
		for _, first := range l.links[0] {
			first.Close()
		}
		l.running.Wait()
		l.stop()
		l.failed = l.release()
		l.log.Debug("pipeline closed", "error", l.failed)
	})
	return l.failed
}

func (l *Line) release() error {
	var errs []error
	for _, replicas := range l.stages {
		for _, s := range replicas {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, l.devices.Close())...)
}
