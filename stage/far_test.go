package stage_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/stage"
)

// far is a device whose memory the host can't reach: what goes in and comes out
// must be uploaded and downloaded.
type far struct{ held int64 }

func (d *far) Info() device.Info               { return device.Info{Name: "cuda:7", Kind: device.CUDA} }
func (d *far) Allocated() int64                { return d.held }
func (d *far) NewQueue() (device.Queue, error) { return nil, errors.ErrUnsupported }
func (d *far) Close() error                    { return nil }
func (d *far) Alloc(bytes int64) (device.Buffer, error) {
	d.held += bytes
	return &farBuffer{d, make([]byte, bytes)}, nil
}

type farBuffer struct {
	device *far
	mem    []byte
}

func (b *farBuffer) Device() device.Device { return b.device }
func (b *farBuffer) Size() int64           { return int64(len(b.mem)) }
func (b *farBuffer) Bytes() []byte         { return nil }
func (b *farBuffer) Free() error           { b.device.held -= int64(len(b.mem)); return nil }

// farQueue has what a stage itself calls; ops it has none.
type farQueue struct {
	kernels.Queue
	device *far
}

func (q farQueue) Device() device.Device           { return q.device }
func (q farQueue) Begin()                          {}
func (q farQueue) End()                            {}
func (q farQueue) Err() error                      { return nil }
func (q farQueue) NewEvent() (device.Event, error) { return device.Done, nil }
func (q farQueue) Record(device.Event)             {}
func (q farQueue) Reserve(int, int) error          { return nil }
func (q farQueue) Close() error                    { return nil }
func (q farQueue) Upload(dst device.Buffer, offset int64, src []byte) {
	copy(dst.(*farBuffer).mem[offset:], src)
}
func (q farQueue) Download(dst []byte, src device.Buffer, offset int64) {
	copy(dst, src.(*farBuffer).mem[offset:])
}

type farKernels struct{ kernels.Sizes }

func (farKernels) Kind() device.Kind { return device.CUDA }
func (farKernels) NewQueue(d device.Device) (kernels.Queue, error) {
	return farQueue{device: d.(*far)}, nil
}
func (farKernels) WorkspaceBytes(device.Info, int, int) (int64, error) { return 0, nil }

func init() { kernels.Register(farKernels{}) }

// negate is a layer on a far device.
type negate struct{ width int }

func (l negate) Name() string       { return "negate" }
func (l negate) Shape() stage.Shape { return stage.Shape{Width: l.width} }
func (l negate) Close() error       { return nil }
func (l negate) Cost(device.Info, stage.Config) (packer.Cost, error) {
	return packer.Cost{}, nil
}
func (l negate) Load(context.Context, kernels.Queue, stage.Config) (stage.Runner, error) {
	return l, nil
}
func (l negate) Forward(_ *stage.Pass, in, out kernels.Tensor) error {
	floats := func(t kernels.Tensor) []float32 {
		mem := t.Buf.(*farBuffer).mem[t.Off:]
		return unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), t.Rows*t.Cols)
	}
	y := floats(out)
	for i, x := range floats(in) {
		y[i] = -x
	}
	return nil
}

// A batch brings its rows along: the host writes them where the device has its
// memory, or they are uploaded.
func TestInputIsUploadedWhereTheHostCannotWriteIt(t *testing.T) {
	d := new(far)
	config := stage.Config{MaxRows: 4, MaxOutputs: 4, InFlight: 2, Input: 3}
	layers := []stage.Layer{negate{3}}
	s, err := stage.Load(t.Context(), stage.Position{Last: true}, d, layers, config, nil)
	require.NoError(t, err)
	overhead, err := config.Overheads(layers).On(d.Info(), false)
	require.NoError(t, err)
	assert.Equal(t, overhead(0, 1), d.Allocated())

	in, out := stage.NewLink(2), stage.NewLink(2)
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), in, out) }()
	for round := range 3 {
		for slot := range 2 {
			b := stage.NewBatch(slot, config)
			b.Input = s.Input(slot)
			require.Len(t, b.Input, 12)
			for row := range slot + round {
				b.Header.Append(0, 0, 0, true)
				copy(b.Input[3*row:], []float32{1, float32(slot), float32(row)})
			}
			b.Seal()
			require.NoError(t, in.Send(t.Context(), b))
		}
		for slot := range 2 {
			b, err := out.Recv(t.Context())
			require.NoError(t, err)
			require.NoError(t, b.Wait(t.Context()))
			var want []float32
			for row := range slot + round {
				want = append(want, -1, -float32(slot), -float32(row))
			}
			assert.True(t, slices.Equal(want, b.Values()), "%v, not %v", b.Values(), want)
		}
	}
	in.Close()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
	assert.Zero(t, d.Allocated())
	assert.Nil(t, s.Input(0))
}
