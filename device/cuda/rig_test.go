package cuda

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/gpukernels/ptx"
)

var (
	_ device.Backend      = backend
	_ driver.Driver       = (*cuda)(nil)
	_ device.Programmable = (*Device)(nil)
	_ device.Pinner       = (*Device)(nil)
	_ device.Copier       = (*Device)(nil)
	_ device.Peer         = (*Device)(nil)
	_ device.Addressable  = (*Buffer)(nil)
	_ device.Buffer       = (*driver.HostBuffer)(nil)
	_ device.Launcher     = (*Queue)(nil)
	_ device.Timed        = (*Event)(nil)
)

// What the tests look at of the devices.
type (
	Device = driver.Device
	Queue  = driver.Queue
	Event  = driver.Event
	Buffer = driver.Buffer
)

func nameOf(i int) string { return fmt.Sprintf("cuda:%d", i) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

// openGPU opens a GPU of the emulated machine, that emulator.Use has made before.
func openGPU(t testing.TB, name string) *Device {
	t.Helper()
	d, err := backend.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d.(*Device)
}

// oneGPU is a GPU of a machine that has no other.
func oneGPU(t testing.TB, fault string) *Device {
	t.Helper()
	emulator.Use(t, emulator.Machine{GPUs: 1, Memory: "64MiB", Fault: fault})
	return openGPU(t, "cuda:0")
}

func newQueue(t testing.TB, d device.Device) *Queue {
	t.Helper()
	q, err := d.NewQueue()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q.(*Queue)
}

func newBuffer(t testing.TB, d device.Device, n int64) device.Buffer {
	t.Helper()
	b, err := d.Alloc(n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Free()) })
	return b
}

func newEvent(t testing.TB, q *Queue) *Event {
	t.Helper()
	e, err := q.NewEvent()
	require.NoError(t, err)
	return e.(*Event)
}

// within visits a queue.
func within(q device.Queue, do func()) {
	q.Begin()
	defer q.End()
	do()
}

// outcomeOf records a new event and returns the error of the work before it.
func outcomeOf(t testing.TB, q *Queue) error {
	t.Helper()
	e := newEvent(t, q)
	within(q, func() { q.Record(e) })
	return e.Wait(background)
}

func upload(t testing.TB, q *Queue, b device.Buffer, data []byte) {
	t.Helper()
	within(q, func() { q.Upload(b, 0, data) })
	require.NoError(t, outcomeOf(t, q))
}

func download(t testing.TB, q *Queue, b device.Buffer, n int64) []byte {
	t.Helper()
	data := make([]byte, n)
	within(q, func() { q.Download(data, b, 0) })
	require.NoError(t, outcomeOf(t, q))
	return data
}

// adder launches leat_add: n numbers of x are added to those of dst.
type adder struct {
	f      device.Function
	n      int
	params []byte
}

func newAdder(t testing.TB, d *Device, n int) *adder {
	t.Helper()
	p, err := d.Load(ptx.Kernels)
	require.NoError(t, err)
	f, err := p.Function("leat_add")
	require.NoError(t, err)
	return &adder{f, n, make([]byte, 24)}
}

func (a *adder) launch(q *Queue, dst, x device.Buffer) {
	binary.LittleEndian.PutUint64(a.params, dst.(*Buffer).Address())
	binary.LittleEndian.PutUint64(a.params[8:], x.(*Buffer).Address())
	binary.LittleEndian.PutUint32(a.params[16:], uint32(a.n))
	q.Launch(a.f, device.Grid{X: uint32((a.n + 255) / 256), Y: 1, Z: 1, Threads: 256}, a.params)
}

func floatBytes(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// pattern is n bytes that differ from those of another seed nearly everywhere.
func pattern(n int64, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8*13) + seed
	}
	return b
}

// gather launches leat_gather over a header that holds other numbers than it is told,
// which it reports.
type gather struct {
	f      device.Function
	params []byte
	buffer device.Buffer
}

func newGather(t testing.TB, d *Device) *gather {
	t.Helper()
	p, err := d.Load(ptx.Kernels)
	require.NoError(t, err)
	f, err := p.Function("leat_gather")
	require.NoError(t, err)
	return &gather{f, make([]byte, 48), newBuffer(t, d, 256)}
}

func (g *gather) launch(q *Queue) {
	at := g.buffer.(*Buffer).Address()
	binary.LittleEndian.PutUint64(g.params, at)        // dst: one number
	binary.LittleEndian.PutUint64(g.params[8:], at)    // src
	binary.LittleEndian.PutUint64(g.params[16:], at+4) // the header: zeros
	binary.LittleEndian.PutUint64(g.params[24:], q.Status())
	for i, n := range []uint32{3, 1, 1} { // rows, columns, outputs
		binary.LittleEndian.PutUint32(g.params[32+4*i:], n)
	}
	q.Launch(g.f, device.Grid{X: 1, Y: 1, Z: 1, Threads: 256}, g.params)
}
