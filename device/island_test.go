package device

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// island is a device with a memory that the host can't reach, whose queues work by
// themselves, each on a goroutine of its own.
type island struct {
	info Info

	mu     sync.Mutex // guards what follows
	held   int64
	queues int
	fails  map[string]error // the next operation of that name does
	gates  map[string]chan struct{}
}

func newIsland(name string, k Kind) *island {
	return &island{info: Info{Name: name, Kind: k}, fails: map[string]error{}, gates: map[string]chan struct{}{}}
}

func (d *island) Info() Info { return d.info }

func (d *island) Allocated() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// failing has the next operation of a name fail.
func (d *island) failing(op string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails[op] = err
}

// gate has operations of a name wait until what it returns is called.
func (d *island) gate(op string) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := make(chan struct{})
	d.gates[op] = g
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.gates, op)
		close(g)
	}
}

// operation is the error of one, once its gate is open.
func (d *island) operation(op string) error {
	d.mu.Lock()
	g := d.gates[op]
	d.mu.Unlock()
	if g != nil {
		<-g
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.fails[op]
	delete(d.fails, op)
	return err
}

func (d *island) Alloc(bytes int64) (Buffer, error) {
	if err := d.operation("Alloc"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held += bytes
	return &islandBuffer{device: d, mem: make([]byte, bytes)}, nil
}

func (d *island) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != 0 || d.queues != 0 {
		return fmt.Errorf("%s: closed with %d bytes not freed and %d queues not closed", d.info.Name, d.held, d.queues)
	}
	return nil
}

func (d *island) NewQueue() (Queue, error) { return d.queueOf(d) }

// queueOf makes a queue of the island, or of the port that it is.
func (d *island) queueOf(owner Device) (Queue, error) {
	if err := d.operation("NewQueue"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queues++
	q := &islandQueue{owner: owner, device: d, work: make(chan func(), 1<<10), ended: make(chan struct{})}
	go func() {
		defer close(q.ended)
		for do := range q.work {
			do()
		}
	}()
	return q, nil
}

// port is an island with pinned memory, and queues for copies alone.
type port struct{ *island }

func (d port) AllocHost(bytes int64) (Buffer, error) {
	if err := d.operation("AllocHost"); err != nil {
		return nil, err
	}
	b, err := d.Alloc(bytes)
	if err == nil {
		b.(*islandBuffer).host = true
	}
	return b, err
}

func (d port) NewQueue() (Queue, error) { return d.queueOf(d) }

func (d port) NewCopyQueue() (Queue, error) {
	if err := d.operation("NewCopyQueue"); err != nil {
		return nil, err
	}
	q, err := d.NewQueue()
	if err == nil {
		q.(*islandQueue).copies = true
	}
	return q, err
}

type islandBuffer struct {
	device *island
	mem    []byte
	host   bool
}

func (b *islandBuffer) Device() Device { return b.device }
func (b *islandBuffer) Size() int64    { return int64(len(b.mem)) }

func (b *islandBuffer) Bytes() []byte {
	if !b.host {
		return nil
	}
	return b.mem
}

func (b *islandBuffer) Free() error {
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	b.device.held -= int64(len(b.mem))
	b.mem = nil
	return nil
}

type islandQueue struct {
	owner  Device
	device *island
	copies bool
	inside bool
	work   chan func()
	ended  chan struct{}
	err    error // of the goroutine
}

func (q *islandQueue) Device() Device { return q.owner }
func (q *islandQueue) Begin()         { q.inside = true }
func (q *islandQueue) End()           { q.inside = false }
func (q *islandQueue) Err() error     { return nil }

func (q *islandQueue) do(op string, work func() error) {
	if !q.inside {
		panic(op + " outside Begin and End")
	}
	q.work <- func() {
		err := q.device.operation(op)
		if q.err == nil && err == nil {
			err = work()
		}
		if q.err == nil {
			q.err = err
		}
	}
}

func (q *islandQueue) Upload(dst Buffer, offset int64, src []byte) {
	q.do("Upload", func() error { copy(dst.(*islandBuffer).mem[offset:], src); return nil })
}

func (q *islandQueue) Download(dst []byte, src Buffer, offset int64) {
	q.do("Download", func() error { copy(dst, src.(*islandBuffer).mem[offset:]); return nil })
}

func (q *islandQueue) After(e Event) {
	q.do("After", func() error { return e.Wait(context.Background()) })
}

func (q *islandQueue) NewEvent() (Event, error) {
	if err := q.device.operation("NewEvent"); err != nil {
		return nil, err
	}
	return &islandEvent{}, nil
}

func (q *islandQueue) Record(e Event) {
	done := e.(*islandEvent).arm()
	q.work <- func() {
		done(q.err)
		q.err = nil
	}
}

func (q *islandQueue) Close() error {
	close(q.work)
	<-q.ended
	q.device.mu.Lock()
	defer q.device.mu.Unlock()
	q.device.queues--
	return nil
}

type islandEvent struct {
	mu   sync.Mutex
	done chan struct{} // nil: never recorded
	err  error
}

func (e *islandEvent) arm() (end func(error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	done := make(chan struct{})
	e.done = done
	return func(err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
		close(done)
	}
}

func (e *islandEvent) Wait(ctx context.Context) error {
	e.mu.Lock()
	done := e.done
	e.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// mainland is a device in the host's memory, which does everything on the spot.
type mainland struct{ name string }

func (d mainland) Info() Info               { return Info{Name: d.name, Kind: CPU, HostMemory: true} }
func (d mainland) Allocated() int64         { return 0 }
func (d mainland) Close() error             { return nil }
func (d mainland) NewQueue() (Queue, error) { return &mainlandQueue{device: d}, nil }
func (d mainland) Alloc(bytes int64) (Buffer, error) {
	return &mainlandBuffer{device: d, mem: make([]byte, bytes)}, nil
}

type mainlandBuffer struct {
	device mainland
	mem    []byte
}

func (b *mainlandBuffer) Device() Device { return b.device }
func (b *mainlandBuffer) Size() int64    { return int64(len(b.mem)) }
func (b *mainlandBuffer) Bytes() []byte  { return b.mem }
func (b *mainlandBuffer) Free() error    { b.mem = nil; return nil }

type mainlandQueue struct {
	device mainland
	err    error
}

func (q *mainlandQueue) Device() Device           { return q.device }
func (q *mainlandQueue) Begin()                   {}
func (q *mainlandQueue) End()                     {}
func (q *mainlandQueue) Err() error               { return q.err }
func (q *mainlandQueue) Close() error             { return nil }
func (q *mainlandQueue) NewEvent() (Event, error) { return &islandEvent{}, nil }
func (q *mainlandQueue) After(e Event)            { q.err = errors.Join(q.err, e.Wait(context.Background())) }

func (q *mainlandQueue) Record(e Event) {
	e.(*islandEvent).arm()(q.err)
	q.err = nil
}

func (q *mainlandQueue) Upload(dst Buffer, offset int64, src []byte) {
	copy(dst.Bytes()[offset:], src)
}

func (q *mainlandQueue) Download(dst []byte, src Buffer, offset int64) {
	copy(dst, src.Bytes()[offset:])
}

// crossing is a transfer between two devices with a queue and a buffer on each side.
type crossing struct {
	t         *testing.T
	transfer  Transfer
	from, to  Queue
	src, into Buffer
	ready     Event
	got       []byte
	arrived   Event
}

func newCrossing(t *testing.T, from, to Device, n int64) *crossing {
	t.Helper()
	c := &crossing{t: t, got: make([]byte, n)}
	queue := func(d Device) Queue {
		q, err := d.NewQueue()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, q.Close()) })
		return q
	}
	buffer := func(d Device) Buffer {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Free()) })
		return b
	}
	event := func(q Queue) Event {
		e, err := q.NewEvent()
		require.NoError(t, err)
		return e
	}
	c.from, c.to, c.src, c.into = queue(from), queue(to), buffer(from), buffer(to)
	c.ready, c.arrived = event(c.from), event(c.to)
	var err error
	c.transfer, err = NewTransfer(from, c.to)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.transfer.Close())
		require.NoError(t, c.transfer.Close(), "once is enough, twice does no harm")
	})
	return c
}

// send puts data on the sender and moves it, up to where the host is through.
func (c *crossing) send(ctx context.Context, data []byte) (Buffer, error) {
	c.from.Begin()
	c.from.Upload(c.src, 0, data)
	c.from.Record(c.ready)
	c.from.End()
	return c.transfer.Move(ctx, c.into, c.src, int64(len(data)), c.ready)
}

// receive returns what the receiver has read of it, n bytes.
func (c *crossing) receive(b Buffer, n int) ([]byte, error) {
	clear(c.got)
	c.to.Begin()
	c.to.Download(c.got[:n], b, 0)
	c.to.Record(c.arrived)
	c.to.End()
	return c.got[:n], c.arrived.Wait(context.Background())
}
