package stage_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/stage"
)

// wire joins two stages by a connection: what is sent is marshalled at one end, and
// unmarshalled at the other into a batch of that end's own. Batches go back to where
// they are filled when they have been written.
type wire struct {
	conn    net.Conn
	buffer  []byte
	filled  chan *stage.Batch // at the sending end: those that may be filled again
	receive chan *stage.Batch // at the receiving end: those that may be received into
}

func (w *wire) Send(ctx context.Context, b *stage.Batch) error {
	if err := b.Wait(ctx); ctx.Err() != nil {
		return err
	}
	var err error
	if w.buffer, err = b.AppendBinary(append(w.buffer[:0], 0, 0, 0, 0)); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(w.buffer, uint32(len(w.buffer)-4))
	_, err = w.conn.Write(w.buffer)
	b.Reset()
	w.filled <- b
	return err
}

func (w *wire) Recv(ctx context.Context) (*stage.Batch, error) {
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); errors.Is(err, io.EOF) {
		return nil, stage.ErrClosed
	} else if err != nil {
		return nil, err
	}
	data := make([]byte, binary.LittleEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, data); err != nil {
		return nil, err
	}
	b := <-w.receive
	return b, b.UnmarshalBinary(data)
}

func (w *wire) TrySend(b *stage.Batch) bool { return false }
func (w *wire) Len() int                    { return 0 }
func (w *wire) Close()                      { w.conn.Close() }

// mixes is a layer in which every number of a row depends on every number before it.
func mixes(name string, width int, fail float32) stage.Layer {
	return &stagetest.Rows{Called: name, Width: width, Row: func(out, in []float32) error {
		sum := float32(0)
		for i := range out {
			sum = sum*0.7 + in[i%len(in)]
			out[i] = float32(math.Sin(float64(sum)))
		}
		if in[0] == fail {
			return stagetest.ErrFail
		}
		return nil
	}}
}

// Two stages that share nothing but bytes give the bits of one with all layers.
func TestStagesJoinedByAWire(t *testing.T) {
	const fail = 1e6
	ctx := t.Context()
	config := stage.Config{MaxRows: 5, MaxOutputs: 5, InFlight: 2, Input: 3}
	layers := []stage.Layer{mixes("block 0", 7, fail), mixes("block 1", 6, 0.125), mixes("block 2", 4, 0.125)}
	places, err := device.Resolve("cpu", 0)
	require.NoError(t, err)
	var set device.Set
	d, err := set.Open(places[0].Info.Name)
	require.NoError(t, err)
	load := func(at stage.Position, layers []stage.Layer, c stage.Config) *stage.Stage {
		s, err := stage.Load(ctx, at, d, layers, c, nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	t.Cleanup(func() { assert.NoError(t, set.Close()) })
	whole := load(stage.Position{Last: true}, layers, config)
	first := load(stage.Position{Host: true}, layers[:2], config)
	there := config
	there.Input, there.InFlight = 0, 3 // the other process has settings of its own
	second := load(stage.Position{Number: 1, Last: true, Before: []stage.Upstream{{Width: 6}}}, layers[2:], there)

	var running sync.WaitGroup
	direct, result := stage.NewLink(2), stage.NewLink(2)
	running.Go(func() { assert.NoError(t, whole.Run(ctx, direct, result)) })
	here, far := net.Pipe()
	sends := &wire{conn: here, filled: make(chan *stage.Batch, config.InFlight)}
	receives := &wire{conn: far, receive: make(chan *stage.Batch, there.InFlight)}
	for slot := range config.InFlight {
		b := stage.NewBatch(slot, config)
		b.Input = first.Input(slot)
		sends.filled <- b
	}
	for slot := range there.InFlight {
		b := stage.NewBatch(slot, there)
		b.Input = second.Input(slot)
		receives.receive <- b
	}
	in, out := stage.NewLink(1), stage.NewLink(1)
	running.Go(func() { assert.NoError(t, first.Run(ctx, in, sends)) })
	running.Go(func() { assert.NoError(t, second.Run(ctx, receives, out)) })

	r := rand.New(rand.NewPCG(5, 6))
	own := stage.NewBatch(0, config)
	own.Input = whole.Input(0)
	failed := 0
	for number := range uint64(200) {
		own.Reset()
		b := <-sends.filled
		rows := 1 + r.IntN(config.MaxRows)
		for i := range rows * config.Input {
			b.Input[i] = r.Float32()*8 - 4
		}
		if number%10 == 7 {
			b.Input[0] = fail
			failed++
		}
		copy(own.Input, b.Input[:rows*config.Input])
		for range rows {
			b.Header.Append(int32(number), 0, 0, true)
			own.Header.Append(int32(number), 0, 0, true)
		}
		b.Number, b.Want = number+1, stage.Want{Best: number%3 == 1, Values: true}
		own.Want = b.Want
		b.Seal()
		own.Seal()
		require.NoError(t, direct.Send(ctx, own))
		require.NoError(t, in.Send(ctx, b))
		want, err := result.Recv(ctx)
		require.NoError(t, err)
		got, err := out.Recv(ctx)
		require.NoError(t, err)
		assert.Equal(t, number+1, got.Number)
		wanted := want.Wait(ctx)
		if err := got.Wait(ctx); number%10 == 7 {
			assert.ErrorIs(t, wanted, stagetest.ErrFail)
			require.ErrorContains(t, err, "stage 0 (blocks 0-1) on cpu:0")
			require.ErrorContains(t, err, "in block 0: "+stagetest.ErrFail.Error())
		} else {
			require.NoError(t, errors.Join(wanted, err))
			require.Len(t, got.Values(), 4*rows)
			for i, x := range want.Values() {
				require.Equal(t, math.Float32bits(x), math.Float32bits(got.Values()[i]))
			}
			require.Equal(t, want.Chosen(), got.Chosen())
		}
		got.Reset()
		receives.receive <- got
	}
	assert.Equal(t, 20, failed)
	assert.EqualValues(t, 180, second.Stats().Batches, "a batch that has failed is passed on past it")
	in.Close()
	direct.Close()
	running.Wait()
}

// What a device computes by itself comes to the host's memory for a wire, and not
// otherwise: the error says what to do.
func TestActivationsOfADeviceGoOverAWire(t *testing.T) {
	for _, host := range []bool{true, false} {
		d := &slow{name: "rocm:0"}
		config := stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 1}
		s, err := stage.Load(t.Context(), stage.Position{Host: host}, d, []stage.Layer{&adds{name: "block 0", width: 2, takes: time.Millisecond}}, config, nil)
		require.NoError(t, err)
		in, out := stage.NewLink(1), stage.NewLink(1)
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context(), in, out) }()
		b := stage.NewBatch(0, config)
		b.Header.Append(4, 0, 0, true)
		b.Header.Append(6, 0, 0, true)
		b.Seal()
		require.NoError(t, in.Send(t.Context(), b))
		b, err = out.Recv(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Wait(t.Context()))
		data, err := b.MarshalBinary()
		if host {
			require.NoError(t, err)
			to := stage.NewBatch(0, config)
			require.NoError(t, to.UnmarshalBinary(data))
			assert.Equal(t, []float32{5, 6, 7, 8}, to.Input)
		} else {
			assert.ErrorContains(t, err, "in the memory of rocm:0: load the stage with Position.Host")
		}
		in.Close()
		require.NoError(t, <-ended)
		require.NoError(t, s.Close())
		assert.Zero(t, d.pinned.Load())
	}
}
