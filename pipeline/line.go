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
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/goroutine"
	"github.com/leat-dev/leat/internal/traffic"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

// Line is a sequence of running stages, for a user that forms the batches itself. (A
// [Pipeline] forms batches from the rows of its callers, and package generate from the
// tokens of its requests; both use a Line.) [OpenLine] makes a Line.
//
// The user receives a batch from Free, fills it, and passes it to Submit or TrySubmit.
// When all stages have computed it, the line passes it to its [Handler], which returns it
// with Release. There are as many batches as may be in flight. The methods of a Line may
// be called from any goroutine.
//
// If stages have replicas, there are several routes through them, and each batch takes
// one. The line tracks the health of each route; see Working, Pick and Due.
type Line struct {
	plan    *Plan
	handler Handler
	devices *device.Set
	log     *slog.Logger
	stages  [][]*stage.Stage // the replicas of each stage
	free    chan *stage.Batch
	routes  *routes
	stop    context.CancelFunc
	running sync.WaitGroup
	started time.Time
	links   [][]stage.Link // the link into each replica of each stage
	traffic *traffic.Counter
	numbers atomic.Uint64 // the number of the latest batch
	rows    *histogram.Histogram[int]

	depth int // how many batches a link into the first stage holds

	inside goroutine.Set // goroutines, besides the stages', for which the end of the line waits
	mu     sync.RWMutex  // held for reading while a batch is sent
	closed atomic.Bool   // no more batches are accepted
	once   sync.Once
	over   chan struct{} // closed when everything has ended
	failed error         // the result of Close, set before over is closed
}

// Handler has the functions that a Line calls. They may be called from several
// goroutines at once. They must not block, because a stage does nothing else meanwhile.
// They may call those methods of the line that don't block, such as TrySubmit, Release
// and Pick. A panic in one of them is not recovered. A call of runtime.Goexit becomes a
// panic, since otherwise nobody would handle the batch.
type Handler struct {
	// Finished is called once for each batch that was submitted, after all devices have
	// finished their work on it and before Close returns. The batch has its results or
	// its error. The batches of one route finish in the order in which they were
	// submitted. The batch belongs to the handler until it is passed to Release, which
	// may happen later and on another goroutine. If the last stage's device is not
	// asynchronous, as a CPU isn't, Finished may be called on that stage's goroutine.
	Finished func(b *stage.Batch)

	// Changed, if not nil, is called after the health of a route has changed: Working or
	// RouteErr returns another result than before, or a probe has become due. If the
	// outcome of a batch is the reason, Changed is called after Finished.
	Changed func(route int)

	// Room, if not nil, is called when the first stage has received a batch from a full
	// link, if TrySubmit has found that link full since the last call of Room. The route
	// is that of the latest such TrySubmit.
	Room func(route int)
}

// opening is held while a line is opened, so that two plans that were made at the same
// time don't both use the same budget.
var opening = semaphore.NewWeighted(1)

// stillFits returns an error if other pipelines of the process have allocated so much
// since the plan was made that a budget doesn't hold the plan's stages any more.
func (p *Plan) stillFits() error {
	for _, s := range p.Stages {
		for _, r := range s.Each() {
			if held := allocated.Bytes(r.Device.Name); r.Budget > 0 && r.Bytes() > r.Budget-held {
				return fmt.Errorf("%w: %s on %s needs %s of a budget of %s, of which other pipelines of this process now hold %s",
					packer.ErrNoFit, r.Layers, r.Device.Name, device.FormatSize(r.Bytes()), device.FormatSize(r.Budget), device.FormatSize(held))
			}
		}
	}
	return nil
}

// OpenLine opens the plan's devices, loads the layers onto them and starts the stages.
// The caller ends the line with Close or Shutdown. ctx limits the loading only. If
// OpenLine returns an error, it has freed everything. The handler is not called before
// the first batch is submitted.
//
// Options that have an effect only in a [Pipeline] are errors; see [Site.Gathering] for
// WithMaxWait and WithBacklog.
func OpenLine(ctx context.Context, p *Plan, h Handler) (*Line, error) {
	if h.Finished == nil {
		return nil, errors.New("a line needs a Handler with a Finished function")
	}
	if err := p.checkLine(); err != nil {
		return nil, err
	}
	return p.open(ctx, h)
}

// open is OpenLine for a user that applies all options.
func (p *Plan) open(ctx context.Context, h Handler) (*Line, error) {
	if p.config.imagined {
		return nil, errors.New("a plan for imagined devices can't be opened")
	}
	if err := opening.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for another pipeline to open: %w", err)
	}
	defer opening.Release(1)
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
		traffic: traffic.New(),
		rows:    histogram.New(histogram.Rows()),
		over:    make(chan struct{}),
	}
	l.routes = newRoutes(p, l.log, h.Changed)
	started := false
	defer func() {
		if !started { // also if a layer has called runtime.Goexit
			_ = l.release() // the first error says more
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

// load loads the stages.
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
				if cost, err := layer.Cost(replica.Device, p.stage); err == nil && p.config.progress != nil {
					loaded = min(total, loaded+cost.Weights)
					p.config.progress(loaded, total)
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

// Free returns a channel of batches that may be filled. Whoever receives a batch from it
// owns the batch until it is submitted or released.
func (l *Line) Free() <-chan *stage.Batch { return l.free }

// Submit sends a batch that was received from Free to the first stage, to the replica on
// the batch's route. It blocks while the link to that replica is full. Submit returns
// ErrClosed if the line is closed, ctx's error if ctx ends first, or an error if the
// route does not exist. In these cases the batch still belongs to the caller, and the
// handler is not called for it.
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

// TrySubmit is Submit without blocking. It reports whether the batch was sent; if not,
// the link was full, and Handler.Room is called when it is worth trying again. With
// WithQueue(0) a batch can be sent only while the stage waits for one, and Handler.Room
// is not called.
func (l *Line) TrySubmit(b *stage.Batch) (sent bool, err error) {
	if !l.mu.TryRLock() { // only end holds it for writing
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

// enter prepares a batch for sending, and counts it.
func (l *Line) enter(b *stage.Batch) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if b.Route < 0 || b.Route >= l.plan.routes {
		return fmt.Errorf("a batch for route %d of %d", b.Route, l.plan.routes)
	}
	b.Seal()
	if b.Number == 0 { // otherwise it was entered before, and the link was full
		l.filled(b)
	}
	l.traffic.Enter()
	l.routes.sent(b.Route)
	return nil
}

// unsent undoes the counting of enter.
func (l *Line) unsent(b *stage.Batch) {
	l.routes.unsent(b.Route)
	l.traffic.Leave()
}

// first returns the link into the first stage on a route.
func (l *Line) first(route int) stage.Link {
	links := l.links[0]
	return links[stage.Replicas(len(links)).For(route)]
}

// Room reports whether the link to the first stage on a route is not full. A Submit then
// doesn't block, unless another goroutine submits a batch before. With WithQueue(0) the
// link holds no batch, and Room returns false.
func (l *Line) Room(route int) bool { return l.first(route).Len() < l.depth }

// Release returns a batch to the line, after it has finished or if it was not sent. The
// caller must not use the batch or its results afterwards.
func (l *Line) Release(b *stage.Batch) {
	l.emptied(b)
	if route, abandoned := l.routes.release(b); abandoned && l.handler.Changed != nil {
		l.handler.Changed(route)
	}
	b.Reset()
	l.free <- b // never blocks: it holds all batches of the line
}

// Plan returns the plan that the line was opened from. The caller must not change it.
func (l *Line) Plan() *Plan { return l.plan }

// Shutdown makes the line accept no more batches, waits until the batches in flight have
// finished, ends the stages and frees what they hold on their devices. It returns nil,
// or the error of freeing. By then the handler has been called for every submitted batch
// and will not be called again, and results that the user still holds are invalid.
//
// If ctx ends first, Shutdown returns ctx's error and the line still ends; call Shutdown
// or Close to wait for that. Shutdown returns an error at once if it is called by a
// layer, an observer or the handler, since the line can't end before they return.
func (l *Line) Shutdown(ctx context.Context) error {
	l.begin()
	return l.wait(ctx)
}

// Close is Shutdown, except that the batches in flight fail at the next stage that
// receives them, with an error that wraps [stage.ErrClosed]. Close waits for layers that
// are computing. It may be called more than once, and while Shutdown waits.
func (l *Line) Close() error {
	l.abort()
	return l.Shutdown(context.Background())
}

// abort makes the batches in flight fail at the next stage that receives them.
func (l *Line) abort() {
	for _, replicas := range l.stages {
		for _, s := range replicas {
			s.Abort()
		}
	}
}

// begin makes the line accept no more batches and starts the goroutine that ends it.
func (l *Line) begin() {
	l.once.Do(func() {
		l.closed.Store(true)
		go l.end() // returns after the last batch has finished
	})
}

// end waits until all batches have finished, and then ends the stages.
func (l *Line) end() {
	l.mu.Lock() // waits for those that are sending
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

// Inside reports whether the calling goroutine is one for which Close waits, such as that
// of a layer, an observer or the handler. Such a goroutine can't wait for Close.
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

// errInside is returned to a layer, an observer or a handler that waits for its own end.
var errInside = errors.New("a layer, an observer or a handler can't wait until its own pipeline has ended: close the pipeline from another goroutine")

// waitFor returns *err when over is closed, or ctx's error if ctx ends before. It returns
// errInside if inside says that over can't be closed while the caller waits.
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

// release frees the stages and then the devices.
func (l *Line) release() error {
	var errs []error
	for _, replicas := range l.stages {
		for _, s := range replicas {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, l.devices.Close())...)
}
