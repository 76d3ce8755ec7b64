package stage_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/traffic"
	"github.com/leat-dev/leat/stage"
)

const ms = time.Millisecond

// row is stages of one layer each, on devices that work by themselves (s) or on
// the CPU (c).
type row struct {
	t       *testing.T
	config  stage.Config
	set     device.Set
	devices []device.Device
	stages  []*stage.Stage
	in, out stage.Link
	traffic *traffic.Counter
	sent    uint64
	told    []stage.Work
	mu      sync.Mutex // guards told
	ends    sync.WaitGroup
}

func (r *row) Worked(w stage.Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, w)
}

func newRow(t *testing.T, kinds string, layers ...*adds) *row {
	r := &row{t: t, config: stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 3, MaxTop: 2}, traffic: traffic.New()}
	r.in = stage.NewLink(3)
	from := r.in
	for i, kind := range kinds {
		var d device.Device = &slow{name: fmt.Sprintf("rocm:%d", i)}
		if kind == 'c' {
			places, err := device.Resolve("cpu", 0)
			require.NoError(t, err)
			d, err = r.set.Open(places[0].Info.Name)
			require.NoError(t, err)
		}
		r.devices = append(r.devices, d)
		at := stage.Position{Number: i, Last: i == len(kinds)-1}
		if i > 0 {
			at.Before = []stage.Upstream{{Device: r.devices[i-1], Width: layers[i-1].width}}
		}
		layers[i].name = fmt.Sprintf("block %d", i)
		own := []stage.Layer{layers[i]}
		held := d.Allocated()
		s, err := stage.Load(t.Context(), at, d, own, r.config, nil)
		require.NoError(t, err)
		if kind == 's' {
			all := []stage.Layer{layers[i]}
			if i > 0 {
				all = []stage.Layer{layers[i-1], layers[i]}
			}
			overhead, err := r.config.Overheads(all).On(d.Info(), true)
			require.NoError(t, err)
			assert.Equal(t, overhead(len(all)-1, len(all)), d.Allocated()-held, "stage %d", i)
		}
		s.Observe(r, r.traffic.Empty, 0)
		r.stages = append(r.stages, s)
		in, out := from, stage.NewLink(3)
		r.ends.Go(func() { _ = s.Run(t.Context(), in, out) })
		from, r.out = out, out
	}
	return r
}

// send sends a batch with these tokens, one that only wants the best column where
// best says so.
func (r *row) send(slot int, best bool, tokens ...int32) {
	b := r.batch(slot, tokens...)
	b.Want.Best = best
	r.submit(b)
}

func (r *row) batch(slot int, tokens ...int32) *stage.Batch {
	b := stage.NewBatch(slot, r.config)
	for _, token := range tokens {
		b.Header.Append(token, 0, 0, true)
	}
	return b
}

func (r *row) submit(b *stage.Batch) {
	r.sent++
	b.Number = r.sent
	b.Seal()
	r.traffic.Enter()
	require.NoError(r.t, r.in.Send(r.t.Context(), b))
}

// recv takes a batch that is done.
func (r *row) recv() (*stage.Batch, error) {
	b, err := r.out.Recv(r.t.Context())
	require.NoError(r.t, err)
	err = b.Wait(r.t.Context())
	r.traffic.Leave()
	return b, err
}

// work is what the observer was told of a batch at a stage.
func (r *row) work(b *stage.Batch, at int) stage.Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.told {
		if w.Batch == b.Number && w.Stage == at {
			return w
		}
	}
	require.Fail(r.t, "nothing was told", "of batch %d at stage %d", b.Number, at)
	return stage.Work{}
}

func (r *row) close() {
	r.in.Close()
	r.ends.Wait()
	for i, s := range r.stages {
		assert.NoError(r.t, s.Close())
		d, ok := r.devices[i].(*slow)
		assert.Zero(r.t, r.devices[i].Allocated())
		if ok {
			assert.Zero(r.t, d.pinned.Load())
			assert.Zero(r.t, d.early.Load(), "memory is freed when nothing works on it")
		}
	}
	assert.NoError(r.t, r.set.Close())
}

// A stage enqueues one batch behind the other; what is told of them is when the
// device worked.
func TestWorkIsTheDevicesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRow(t, "sc", &adds{width: 1, takes: 10 * ms}, &adds{width: 1, takes: 4 * ms})
		start := time.Now()
		for slot := range 3 {
			r.send(slot, false, 5, 6)
		}
		synctest.Wait()
		assert.Zero(t, r.stages[0].Stats().Batches, "none is done")
		for range 3 {
			b, err := r.recv()
			require.NoError(t, err)
			assert.Equal(t, []float32{7, 8}, b.Values())
			assert.Equal(t, 10*ms, b.Took(0))
			assert.Equal(t, 4*ms, b.Took(1))
		}
		require.Len(t, r.told, 6)
		for i := range 3 {
			gpu, cpu := r.told[2*i], r.told[2*i+1]
			assert.Equal(t, start, gpu.Received, "it takes them all at once,")
			assert.Equal(t, time.Duration(i)*10*ms, gpu.Began.Sub(start), "for its device to do one after the other")
			assert.Equal(t, 10*ms, gpu.Compute)
			assert.Equal(t, gpu.Ended(), cpu.Received, "there is nothing for the CPU before")
			assert.Equal(t, 4*ms, cpu.Compute)
			assert.Zero(t, cpu.Began)
			assert.Zero(t, cpu.Transfer)
		}
		assert.Equal(t, stage.Stats{Busy: 30 * ms, Batches: 3, Rows: 6}, r.stages[0].Stats())
		assert.Equal(t, stage.Stats{Busy: 12 * ms, Bubbles: 12 * ms, Batches: 3, Rows: 6}, r.stages[1].Stats())

		<-time.After(time.Second)
		r.send(0, false, 1)
		_, err := r.recv()
		require.NoError(t, err)
		// The first stage had nothing while the second did its last batch. In the
		// second with no batches it missed none.
		assert.Equal(t, stage.Stats{Busy: 40 * ms, Bubbles: 4 * ms, Batches: 4, Rows: 7}, r.stages[0].Stats())
		assert.Equal(t, stage.Stats{Busy: 16 * ms, Bubbles: 22 * ms, Batches: 4, Rows: 7}, r.stages[1].Stats())
		r.close()
	})
}

// The stage of a device behind another one hands on at once, too.
func TestDevicesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRow(t, "css", &adds{width: 2, takes: ms}, &adds{width: 2, takes: 5 * ms}, &adds{width: 2, takes: 2 * ms})
		start := time.Now()
		for round := range 2 {
			for slot := range 3 {
				r.send(slot, false, int32(round), int32(slot))
			}
			for slot := range 3 {
				b, err := r.recv()
				require.NoError(t, err)
				assert.Equal(t, []float32{float32(round) + 3, float32(round^1) + 3, float32(slot) + 3, float32(slot^1) + 3}, b.Values())
			}
		}
		var spans []string
		for batch := range uint64(3) {
			for at := range r.stages {
				w := r.work(&stage.Batch{Message: stage.Message{Number: batch + 1}}, at)
				spans = append(spans, fmt.Sprintf("%d: %v-%v", w.Stage, w.Ended().Add(-w.Compute).Sub(start), w.Ended().Sub(start)))
			}
		}
		assert.Equal(t, []string{
			"0: 0s-1ms", "1: 1ms-6ms", "2: 6ms-8ms",
			"0: 1ms-2ms", "1: 6ms-11ms", "2: 11ms-13ms",
			"0: 2ms-3ms", "1: 11ms-16ms", "2: 16ms-18ms",
		}, spans)
		assert.Equal(t, 30*ms, r.stages[1].Stats().Busy)
		assert.Equal(t, 2*ms+1*ms, r.stages[1].Stats().Bubbles, "while the third batch was behind it, and the fourth before it")
		r.close()
	})
}

// What a device fails of comes out at the wait, and names its stage, whichever
// stage is the first to see it; the batches behind are as they would be.
func TestADevicesErrorIsItsOwnBatchs(t *testing.T) {
	for _, kinds := range []string{"s", "sc", "ss", "scs", "css", "sss"} {
		for at, kind := range kinds {
			if kind != 's' {
				continue
			}
			t.Run(fmt.Sprintf("%s, stage %d", kinds, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					layers := []*adds{{width: 1, takes: 3 * ms}, {width: 1, takes: 2 * ms}, {width: 1, takes: ms}}
					layers[at].broken, layers[at].unfit = 101, 102
					r := newRow(t, kinds, layers...)
					n := float32(len(kinds))
					for range 3 {
						for slot, token := range []int32{7, 101, 8} {
							r.send(slot, false, token)
						}
						for _, token := range []int32{7, 101, 8} {
							b, err := r.recv()
							if token != 101 {
								require.NoError(t, err)
								assert.Equal(t, []float32{float32(token) + n}, b.Values())
								continue
							}
							assert.Equal(t, &stage.Error{Stage: at, Layers: fmt.Sprintf("block %d", at), Device: r.devices[at].Info().Name, Err: errBroken}, err)
							assert.Equal(t, err, b.Err())
							assert.Equal(t, err, r.work(b, at).Err)
						}
						r.send(0, false, 102)
						b, err := r.recv()
						require.ErrorIs(t, err, errUnfit)
						assert.Equal(t, at, err.(*stage.Error).Stage)
						for later := at + 1; later < len(kinds); later++ {
							assert.Zero(t, b.Took(later), "it is passed on past the others")
						}
					}
					for i, s := range r.stages {
						assert.GreaterOrEqual(t, s.Stats().Batches, int64(6), "stage %d", i)
					}
					r.close()
				})
			})
		}
	}
}

// A device that is lost fails each batch that it was to do, and no other stage
// gets the blame.
func TestALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRow(t, "ssc", &adds{width: 1, takes: ms}, &adds{width: 1, takes: ms}, &adds{width: 1})
		r.send(0, false, 1)
		_, err := r.recv()
		require.NoError(t, err)
		r.devices[1].(*slow).lost.Store(true)
		for slot := range 3 {
			r.send(slot, slot == 1, 1)
		}
		for range 3 {
			_, err := r.recv()
			assert.Equal(t, &stage.Error{Stage: 1, Layers: "block 1", Device: "rocm:1", Err: errLost}, err)
		}
		assert.EqualValues(t, 4, r.stages[1].Stats().Batches)
		r.close()
	})
}

// A batch whose rows only want the largest column gets one number a row.
func TestBestIsChosenOnTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRow(t, "s", &adds{width: 4, unlikely: 9, takes: ms})
		r.send(0, true, 0, 9, 3, 1)
		r.send(1, false, 2)
		r.send(2, true, 9)
		b, err := r.recv()
		require.NoError(t, err)
		assert.Equal(t, []int32{3, -1, 0, 2}, b.Chosen(), "column 0 where it is the largest, -1 where none is a number")
		assert.Nil(t, b.Values())
		b, err = r.recv()
		require.NoError(t, err)
		assert.Nil(t, b.Chosen())
		assert.Equal(t, []float32{3, 4, 1, 2}, b.Values())
		b, err = r.recv()
		require.NoError(t, err)
		assert.Equal(t, []int32{-1}, b.Chosen())
		b.Reset()
		assert.Zero(t, b.Want)
		assert.Nil(t, b.Chosen())
		r.close()

		r = newRow(t, "sc", &adds{width: 4}, &adds{width: 4})
		r.send(0, true, 2)
		b, err = r.recv()
		require.NoError(t, err)
		assert.Equal(t, []int32{1}, b.Chosen(), "also where the host could read what comes out")
		assert.Nil(t, b.Values())
		r.close()
	})
}

// What the host writes for a device, and reads of it, is memory that the device
// copies by itself, where it has any; it is freed with the stage.
func TestHostMemoryIsTheDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slow{name: "rocm:0"}
		config := stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 2, Input: 3}
		s, err := stage.Load(t.Context(), stage.Position{Last: true}, d, []stage.Layer{&adds{name: "block 0", width: 3}}, config, nil)
		require.NoError(t, err)
		assert.Equal(t, 2*(config.HeaderBytes()+2*4*3*4+4*4), d.pinned.Load(), "header, input, output and choice of columns of each slot")
		in, out := stage.NewLink(2), stage.NewLink(2)
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context(), in, out) }()
		for _, elsewhere := range []bool{false, true} {
			b := stage.NewBatch(1, config)
			b.Input = s.Input(1)
			if elsewhere {
				b.Input = make([]float32, 12)
			}
			copy(b.Input, []float32{1, 2, 3})
			b.Header.Append(1, 0, 0, true)
			b.Seal()
			require.NoError(t, in.Send(t.Context(), b))
			b, err = out.Recv(t.Context())
			require.NoError(t, err)
			require.NoError(t, b.Wait(t.Context()))
			assert.Equal(t, []float32{2, 3, 4}, b.Values())
		}
		in.Close()
		require.NoError(t, <-ended)
		require.NoError(t, s.Close())
		assert.Zero(t, d.pinned.Load())
		assert.Zero(t, d.Allocated())
	})
}

// Who ends a stage in the middle of its device's work waits for that in Close.
func TestCloseWaitsForTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slow{name: "rocm:0"}
		config := stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 2}
		s, err := stage.Load(t.Context(), stage.Position{Last: true}, d, []stage.Layer{&adds{name: "block 0", width: 3, takes: 50 * ms}}, config, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		in, out := stage.NewLink(2), stage.NewLink(2)
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, in, out) }()
		b := stage.NewBatch(0, config)
		b.Header.Append(1, 0, 0, true)
		b.Seal()
		require.NoError(t, in.Send(t.Context(), b))
		synctest.Wait()
		began := time.Now()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		assert.Equal(t, context.Canceled, b.Wait(ctx))
		require.NoError(t, s.Close())
		assert.Equal(t, 50*ms, time.Since(began))
		assert.Zero(t, d.early.Load())
		assert.Zero(t, d.Allocated())
	})
}
