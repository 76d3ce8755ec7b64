package cuda

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
)

func TestAlloc(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	var buffers []device.Buffer
	var sum int64
	for _, n := range []int64{0, 1, 63, 4097, 3 << 20} {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		require.Equal(t, n, b.Size())
		require.Same(t, d, b.Device())
		require.Nil(t, b.Bytes())
		require.NotZero(t, b.(*Buffer).Address())
		require.Zero(t, b.(*Buffer).Address()%64)
		require.Equal(t, make([]byte, n), download(t, q, b, n), "it is zeroed")
		buffers = append(buffers, b)
		sum += n
		require.Equal(t, sum, d.Allocated())
	}
	for _, b := range buffers {
		require.NoError(t, b.Free())
		require.NoError(t, b.Free())
		require.Zero(t, b.(*Buffer).Address())
	}
	require.Zero(t, d.Allocated(), "freed twice, counted once")
}

func TestMemoryUsedAgainIsZeroedAgain(t *testing.T) {
	d := oneGPU(t, "")
	q := newQueue(t, d)
	b, err := d.Alloc(1 << 16)
	require.NoError(t, err)
	upload(t, q, b, pattern(1<<16, 1))
	require.NoError(t, b.Free())
	require.Equal(t, make([]byte, 1<<16), download(t, q, newBuffer(t, d, 1<<16), 1<<16))
}

func TestOutOfMemorySaysHowMuch(t *testing.T) {
	d := oneGPU(t, "")
	newBuffer(t, d, 1<<20)
	for _, n := range []int64{64 << 20, 1 << 50, math.MaxInt64} {
		_, err := d.Alloc(n)
		require.ErrorIs(t, err, device.ErrOutOfMemory)
		require.NotErrorIs(t, err, device.ErrLost)
		require.Regexp(t, `^cuda:0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(.+\): `+device.FormatSize(n)+
			` were asked for, Leat has allocated 1.0 MiB, 6\d\.\d MiB of 64.0 MiB are free$`, err.Error())
		var e *device.DriverError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 2, e.Code)
		require.Equal(t, "cuda:0", e.Device)
	}
	_, err := d.Alloc(-1)
	require.EqualError(t, err, "cuda:0: can't allocate a buffer of -1 bytes")
	require.EqualValues(t, 1<<20, d.Allocated(), "what failed isn't counted")
	newBuffer(t, d, 1<<20) // it goes on
}

func TestHostMemory(t *testing.T) {
	d := oneGPU(t, "cuMemHostAlloc:3")
	q := newQueue(t, d) // has the first
	b, err := d.AllocHost(100)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 100), b.Bytes())
	require.EqualValues(t, 100, b.Size())
	require.Same(t, d, b.Device())
	require.Zero(t, d.Allocated())

	_, err = d.AllocHost(1 << 20)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.ErrorContains(t, err, "cuda:0: cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY")
	require.ErrorContains(t, err, "1.0 MiB were asked for")
	_, err = d.AllocHost(-1)
	require.ErrorContains(t, err, "-1 bytes of pinned memory")

	to := newBuffer(t, d, 100)
	copy(b.Bytes(), pattern(100, 3))
	upload(t, q, to, b.Bytes())
	require.Equal(t, pattern(100, 3), download(t, q, to, 100))
	within(q, func() { q.Upload(b, 0, []byte{1}) })
	require.ErrorContains(t, outcomeOf(t, q), "an upload of 1 bytes: the buffer isn't this GPU's")
	require.NoError(t, b.Free())
	require.NoError(t, b.Free())
	require.Nil(t, b.Bytes())
}

func TestCloseReportsWhatWasNotFreed(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	d, err := backend.Open("cuda:0")
	require.NoError(t, err)
	a, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	b, err := d.Alloc(1 << 19)
	require.NoError(t, err)
	h, err := d.(*Device).AllocHost(1)
	require.NoError(t, err)
	require.EqualError(t, d.Close(), "cuda:0: closed before 2 buffers of 1.5 MiB in total and 1 of pinned memory were freed")
	require.NoError(t, d.Close(), "once")

	h.Bytes()[0] = 1 // still there
	for _, left := range []device.Buffer{a, b, h} {
		require.NoError(t, left.Free())
	}
	_, err = d.Alloc(1)
	require.EqualError(t, err, "cuda:0: a buffer of 1 B: the device is closed")
	_, err = d.NewQueue()
	require.ErrorContains(t, err, "the device is closed")
	_, err = d.(*Device).Load(nil)
	require.ErrorContains(t, err, "the device is closed")
}

func TestAQueueMayOutliveItsDevice(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	d, err := backend.Open("cuda:0")
	require.NoError(t, err)
	q, err := d.NewQueue()
	require.NoError(t, err)
	require.EqualError(t, d.Close(), "cuda:0: closed before its queues were closed")
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
}

func TestMemoryThatCannotBeClearedIsFreed(t *testing.T) {
	for _, call := range []string{"cuMemsetD8Async", "cuStreamSynchronize"} {
		t.Run(call, func(t *testing.T) {
			d := oneGPU(t, call+":1=1")
			_, err := d.Alloc(1 << 20)
			var e *device.DriverError
			require.True(t, errors.As(err, &e), err)
			require.Equal(t, call, e.Call)
			require.Equal(t, "CUDA_ERROR_INVALID_VALUE", e.Name)
			require.Zero(t, d.Allocated())
		})
	}
}
