package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/goroutine"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

// Line is a row of stages at work, as the one who forms batches sees it. A batch is
// taken from Free, filled, and given to Submit or TrySubmit; when all stages are
// done with it, the line hands it to its Handler, which gives it back with Release.
// There are as many batches as may be in flight. The methods of a Line may be called
// from any goroutine.
//
// Where stages have replicas, a batch travels by one of several routes. The line
// keeps the health of each: see Working, Pick and Due.
//
// A [Pipeline] forms batches from its callers' rows; package generate forms batches
// of another kind on a Line of its own.
type Line struct {
	plan    *Plan
	handler Handler
	devices *device.Set
	log     *slog.Logger
	stages  [][]*stage.Stage // each with its replicas
	free    chan *stage.Batch
	routes  *routes
	stop    context.CancelFunc
	running sync.WaitGroup
	started time.Time
	links   [][]stage.Link // into each replica
	traffic *stage.Traffic
	numbers atomic.Uint64 // of batches
	rows    *histogram.Histogram[int]

	depth int // of the links into the first stage

	inside goroutine.Set // the line's own goroutines and its user's
	mu     sync.RWMutex  // held for reading while a batch is sent
	closed atomic.Bool   // no more batches are accepted
	once   sync.Once
	over   chan struct{} // closed when all has ended, with
	failed error
}

// Handler is what a Line calls. Its functions may be called from several goroutines
// at once, and must not block: meanwhile a stage does nothing else. They may call
// the methods of the line that don't block, such as TrySubmit, Release and Pick. A
// panic of theirs is not recovered, and a call of runtime.Goexit is a panic: it
// would leave those without an answer who wait for the batch.
type Handler struct {
	// Finished is called once for each batch that was submitted, when all work on it
	// is done, and always before Close returns: its results, or its error, are
	// there. Batches of one route finish in the order in which they were submitted.
	// The batch belongs to the handler until it is given to Release; it may be
	// released later, and elsewhere. Where the last stage's device works on the
	// host, as a CPU does, the goroutine of that stage calls Finished.
	Finished func(b *stage.Batch)

	// Changed, if not nil, is called after the health of a route has changed:
	// Working or RouteErr has another result for it, or a probe has become due. For
	// a change that comes of a batch it is called after Finished.
	Changed func(route int)

	// Room, if not nil, is called when the first stage has taken a batch of a route
	// on which TrySubmit had found no room since the last call.
	Room func(route int)
}

// starting is held while a plan is started: two that were planned at the same time
// must not both fill a budget.
var starting = semaphore.NewWeighted(1)

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
// stages. ctx limits the loading only. When it fails, nothing is left behind. The
// handler is not called before the first batch is submitted.
func (p *Plan) Start(ctx context.Context, h Handler) (_ *Line, err error) {
	if h.Finished == nil {
		return nil, errors.New("a line needs a Handler with a function for finished batches")
	}
	if p.config.Imagined {
		return nil, errors.New("a plan for imagined devices can't be started")
	}
	if err := starting.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for another plan to start: %w", err)
	}
	defer starting.Release(1)
	if err := p.stillFits(); err != nil {
		return nil, err
	}
	n := p.stage.InFlight
	l := &Line{
		plan:    p,
		handler: h,
		devices: new(device.Set),
		log:     p.config.logger(),
		free:    make(chan *stage.Batch, n),
		traffic: stage.NewTraffic(),
		rows:    histogram.New(histogram.Rows()),
		over:    make(chan struct{}),
	}
	l.routes = newRoutes(p, l.log, h.Changed)
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
	var before []stage.Upstream
	for i, s := range p.Stages {
		each := s.Each()
		var next []stage.Upstream
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
			at := stage.Position{Number: i, Last: i == len(p.Stages)-1, Replicas: stage.Replicas(len(each)), Routes: p.routes}
			if i > 0 {
				at.Before = make([]stage.Upstream, len(before))
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
			next = append(next, stage.Upstream{Device: d, Width: p.layers[s.To-1].Shape().Width})
		}
		before = next
	}
	return nil
}

// Free is where batches that may be filled are taken from.
func (l *Line) Free() <-chan *stage.Batch { return l.free }

// Submit sends a filled batch, taken from Free, to the first stage, to the replica
// of its Route. It blocks while the link there is full, until ctx ends. With an
// error, which is ErrClosed, ctx's, or that of a route that does not exist, the
// batch is still the caller's, and the handler is not told of it.
func (l *Line) Submit(ctx context.Context, b *stage.Batch) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.enter(b); err != nil {
		return err
	}
	err := l.first(b.Route).Send(ctx, b)
	if err != nil {
		l.unsent(b)
	}
	return err
}

// TrySubmit is Submit that never blocks: it reports whether the link had room for
// the batch. Where it had none, the handler's Room says when to try again; with
// WithQueue(0) there is room only at moments when the stage waits for a batch, and
// Room is not called.
func (l *Line) TrySubmit(b *stage.Batch) (sent bool, err error) {
	if !l.mu.TryRLock() { // only end locks it
		return false, ErrClosed
	}
	defer l.mu.RUnlock()
	if err := l.enter(b); err != nil {
		return false, err
	}
	if sent = l.first(b.Route).TrySend(b); !sent {
		l.unsent(b)
	}
	return sent, nil
}

// enter makes a batch ready to be sent.
func (l *Line) enter(b *stage.Batch) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if b.Route < 0 || b.Route >= l.plan.routes {
		return fmt.Errorf("a batch for route %d of %d", b.Route, l.plan.routes)
	}
	b.Seal()
	if b.Number == 0 { // else it was entered before, and found no room
		l.filled(b)
	}
	l.traffic.Enter()
	l.routes.sent(b.Route)
	return nil
}

// unsent takes back a batch that was entered.
func (l *Line) unsent(b *stage.Batch) {
	l.routes.unsent(b.Route)
	l.traffic.Leave()
}

// first is the link into the first stage on a route.
func (l *Line) first(route int) stage.Link {
	links := l.links[0]
	return links[stage.Replicas(len(links)).For(route)]
}

// Room reports whether the link to the first stage of a route has room, so that a
// Submit would not block if nobody else submits. A link without a buffer
// (WithQueue(0)) never has room: there Submit waits for the stage.
func (l *Line) Room(route int) bool { return l.first(route).Len() < l.depth }

// Release gives back a batch that has finished, or was never sent. The batch, and
// its results, may not be used afterwards.
func (l *Line) Release(b *stage.Batch) {
	l.emptied(b)
	if route, abandoned := l.routes.release(b); abandoned && l.handler.Changed != nil {
		l.handler.Changed(route)
	}
	b.Reset()
	l.free <- b // has room for all batches that there are
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

// Shutdown accepts no more batches, waits until those in flight have finished, and then
// ends the stages and frees their devices. When it has returned nil, or what freeing
// them failed with, the handler has been called for every submitted batch and is not
// called again, and results that are still held are no longer valid.
//
// If ctx ends before, Shutdown returns ctx's error. The line ends all the same; call
// Shutdown or Close to wait for it. A layer, an observer or the handler, for which the
// end of the line waits, gets an error at once.
func (l *Line) Shutdown(ctx context.Context) error {
	l.begin()
	return l.wait(ctx)
}

// Close is Shutdown, except that batches in flight fail, with an error that wraps
// [stage.ErrClosed], at the next stage that receives them. It waits for layers at work,
// and may be called while Shutdown waits, or again.
func (l *Line) Close() error {
	l.abort()
	return l.Shutdown(context.Background())
}

// abort makes the batches in flight fail at the next stage.
func (l *Line) abort() {
	for _, replicas := range l.stages {
		for _, s := range replicas {
			s.Abort()
		}
	}
}

// begin begins to end the line.
func (l *Line) begin() {
	l.once.Do(func() {
		l.closed.Store(true)
		go l.end() // it ends with the last layer at work
	})
}

// end ends the line when its batches have finished.
func (l *Line) end() {
	l.mu.Lock() // when nobody sends any more
	for _, first := range l.links[0] {
		first.Close()
	}
	l.mu.Unlock()
	l.running.Wait()
	l.routes.close()
	l.stop()
	l.failed = l.release()
	l.log.Debug("pipeline closed", "error", l.failed)
	close(l.over)
}

// wait waits until the line has ended.
func (l *Line) wait(ctx context.Context) error { return waitFor(ctx, l.over, l.Inside, &l.failed) }

// Inside reports whether the end of the line waits for the calling goroutine, as it does
// for that of a layer at work. Such a goroutine can't wait for Close.
func (l *Line) Inside() bool {
	if l.inside.Current() {
		return true
	}
	for _, replicas := range l.stages {
		for _, s := range replicas {
			if s.Inside() {
				return true
			}
		}
	}
	return false
}

// errInside is the error of a layer, an observer or a handler that waits for its own
// end.
var errInside = errors.New("closing a pipeline from one of its own layers, observers or handlers: it ends when they have returned, and can't be waited for there")

// waitFor returns *err when over is closed, or ctx's error when ctx ends before. A
// goroutine for which over waits gets errInside.
func waitFor(ctx context.Context, over <-chan struct{}, inside func() bool, err *error) error {
	select {
	case <-over:
		return *err
	default:
	}
	if inside() {
		return errInside
	}
	select {
	case <-over:
		return *err
	case <-ctx.Done():
		return ctx.Err()
	}
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
