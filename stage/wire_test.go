package stage_test

import (
	"context"
	"encoding"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/stage"
)

var _ interface {
	encoding.BinaryAppender
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
} = new(stage.Message)

// written is a message with everything, of which the first stage reads rows of 3
// numbers.
func written() *stage.Batch {
	b := stage.NewBatch(0, stage.Config{MaxRows: 8, MaxOutputs: 8, MaxTables: 8, Input: 3})
	b.Number, b.Route, b.Want = 1<<40+5, 7, stage.Want{Best: true, Top: 40}
	table := b.Header.Table([]int32{9, 2})
	b.Header.Append(-5, 31, table, false)
	b.Header.Append(100, 32, table, true)
	b.Input = []float32{1, -2.5, float32(math.Inf(1)), math.Float32frombits(0x7fc12345), 0, -0, 99, 98}
	b.Seal()
	return b
}

func TestAMessageSurvivesTheWire(t *testing.T) {
	b := written()
	data, err := b.AppendBinary([]byte("before"))
	require.NoError(t, err)
	assert.Equal(t, "before", string(data[:6]))
	whole, err := b.MarshalBinary()
	require.NoError(t, err)
	assert.Equal(t, data[6:], whole)

	for name, to := range map[string]*stage.Batch{
		"with room": {Message: stage.Message{Header: kernels.NewHeader(8, 8), Input: make([]float32, 24)}},
		"without":   {Message: stage.Message{Header: new(kernels.Header)}},
		"used":      written(),
	} {
		room := len(to.Input) == 24
		var first *float32
		if len(to.Input) > 0 {
			first = &to.Input[0]
		}
		require.NoError(t, to.UnmarshalBinary(whole), name)
		if room {
			assert.Same(t, first, &to.Input[0], "it goes where the stage reads it")
		}
		assert.Equal(t, b.Number, to.Number)
		assert.Equal(t, b.Route, to.Route)
		assert.Equal(t, b.Want, to.Want)
		assert.Equal(t, b.Header.Encode(), to.Header.Encode())
		assert.NoError(t, to.Err())
		for i := range 6 {
			assert.Equal(t, math.Float32bits(b.Input[i]), math.Float32bits(to.Input[i]))
		}
		again, err := to.MarshalBinary()
		require.NoError(t, err)
		assert.Equal(t, whole, again, "and on to the next process")
	}
}

func TestAFailureSurvivesTheWire(t *testing.T) {
	b := written()
	b.Failure = &stage.Error{Stage: 3, Layers: "blocks 4-5", Layer: "block 5", Device: "cuda:1", Err: errors.New("the device is lost")}
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	to := stage.NewBatch(0, stage.Config{})
	require.NoError(t, to.UnmarshalBinary(data))
	assert.EqualError(t, to.Err(), b.Err().Error())
	var at *stage.Error
	require.ErrorAs(t, to.Err(), &at)
	assert.Equal(t, 3, at.Stage)
	assert.Equal(t, "cuda:1", at.Device)
	assert.Equal(t, b.Header.Tokens, to.Header.Tokens)
	require.NoError(t, to.UnmarshalBinary(mustMarshal(t, written())))
	assert.NoError(t, to.Err(), "the next message is a new one")
}

func mustMarshal(t testing.TB, b *stage.Batch) []byte {
	data, err := b.MarshalBinary()
	require.NoError(t, err)
	return data
}

// Whatever is cut off or changed in its counts, no message comes of it, and no memory
// for more than there are bytes.
func TestWhatIsNoMessage(t *testing.T) {
	whole := mustMarshal(t, written())
	to := stage.NewBatch(0, stage.Config{MaxRows: 8, MaxTables: 8})
	for n := range whole {
		assert.Error(t, to.UnmarshalBinary(whole[:n]), "%d bytes", n)
	}
	assert.Error(t, to.UnmarshalBinary(append(whole[:len(whole):len(whole)], 0)))
	const header = 40
	for name, change := range map[string]struct {
		at    int
		value uint32
	}{
		"magic":                 {0, 1},
		"version":               {4, 2},
		"flags":                 {4, 1 | 8<<16},
		"failed without":        {4, 1 | 4<<16},
		"route":                 {16, 1 << 31},
		"top":                   {20, math.MaxUint32},
		"header bytes":          {24, math.MaxUint32},
		"rows":                  {28, math.MaxUint32},
		"columns":               {32, math.MaxUint32},
		"failure bytes":         {36, math.MaxUint32},
		"header's rows":         {header, math.MaxUint32},
		"header's outputs":      {header + 4, 1 << 30},
		"header's pages":        {header + 8, 3},
		"header's unused words": {header + 12, 1},
		"position":              {header + 40, 1 << 31},
		"position's page":       {header + 44, 64},
		"table":                 {header + 48, 2},
		"negative table":        {header + 48, math.MaxUint32},
		"output":                {header + 56, 2},
		"negative output":       {header + 56, math.MaxUint32},
	} {
		data := append([]byte(nil), whole...)
		binary.LittleEndian.PutUint32(data[change.at:], change.value)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := to.UnmarshalBinary(data)
		runtime.ReadMemStats(&after)
		assert.ErrorContains(t, err, "not a message", name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
	}
}

// A message without activations doesn't get those of the message before.
func TestAMessageWithoutActivations(t *testing.T) {
	bare := stage.NewBatch(0, stage.Config{MaxRows: 2})
	bare.Header.Append(1, 0, 0, true)
	data := mustMarshal(t, bare)
	to := written()
	require.NoError(t, to.UnmarshalBinary(data))
	assert.Equal(t, data, mustMarshal(t, to))

	config := stage.Config{MaxRows: 2, MaxOutputs: 2, InFlight: 1, Input: 3}
	s, err := stage.Load(t.Context(), stage.Position{Last: true}, new(far), []stage.Layer{negate{3}}, config, nil)
	require.NoError(t, err)
	in, out := stage.NewLink(1), stage.NewLink(1)
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), in, out) }()
	require.NoError(t, in.Send(t.Context(), to))
	b, err := out.Recv(t.Context())
	require.NoError(t, err)
	assert.ErrorContains(t, b.Wait(t.Context()), "has no activations")
	in.Close()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
}

func TestWhatCannotBeWritten(t *testing.T) {
	for _, change := range []func(b *stage.Batch){
		func(b *stage.Batch) { b.Route = -1 },
		func(b *stage.Batch) { b.Want.Top = -1 },
		func(b *stage.Batch) { b.Input = b.Input[:5] },
	} {
		b := written()
		change(b)
		_, err := b.MarshalBinary()
		assert.Error(t, err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(mustMarshal(f, written()))
	b := written()
	b.Failure = &stage.Error{Err: errors.New("x")}
	f.Add(mustMarshal(f, b))
	f.Fuzz(func(t *testing.T, data []byte) {
		to := stage.NewBatch(0, stage.Config{MaxRows: 4, MaxTables: 4})
		if to.UnmarshalBinary(data) != nil {
			return
		}
		again, err := to.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, data, again, "there is one form of a message")
	})
}

// Messages in the steady state allocate nothing.
func TestTheWireAllocatesNothing(t *testing.T) {
	b, to := written(), written()
	buf := make([]byte, 0, 1<<10)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		data, err := b.AppendBinary(buf)
		if err != nil || to.UnmarshalBinary(data) != nil {
			panic("it failed")
		}
	}))
}

// A stage takes any message that can be read, or fails its batch.
func FuzzStageOfMessages(f *testing.F) {
	f.Add(mustMarshal(f, written()))
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		data := mustMarshal(f, written())
		for range 3 {
			data[r.IntN(len(data))] = byte(r.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config := stage.Config{MaxRows: 2, MaxOutputs: 2, MaxTables: 2, InFlight: 1, Input: 3, MaxTop: 2}
		d := new(far)
		s, err := stage.Load(context.Background(), stage.Position{Last: true, Routes: 8, Replicas: 8}, d, []stage.Layer{negate{3}}, config, nil)
		require.NoError(t, err)
		in, out := stage.NewLink(1), stage.NewLink(1)
		ended := make(chan error)
		go func() { ended <- s.Run(context.Background(), in, out) }()
		b := stage.NewBatch(0, config)
		b.Input = s.Input(0)
		if b.UnmarshalBinary(data) == nil {
			b.Want = stage.Want{}
			require.NoError(t, in.Send(context.Background(), b))
			b, err = out.Recv(context.Background())
			require.NoError(t, err)
			if b.Wait(context.Background()) == nil && len(b.Header.Tokens) > 0 {
				require.Len(t, b.Values(), 3*len(b.Header.Tokens))
			}
		}
		in.Close()
		require.NoError(t, <-ended)
		require.NoError(t, s.Close())
	})
}
