package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/gpukernels/ptx"
)

func TestAVanishedGPUFailsItsWorkAndNoOther(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2, Fault: "vanish:0@3,slow:0@20ms"})
	d, other := openGPU(t, "cuda:0"), openGPU(t, "cuda:1")
	q, behind := newQueue(t, d), newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	follower := newEvent(t, behind)
	var events []*Event
	for range 4 {
		events = append(events, newEvent(t, q))
	}
	for _, e := range events {
		within(q, func() {
			add.launch(q, x, x)
			q.Record(e)
		})
	}
	within(behind, func() {
		behind.After(events[3])
		behind.Record(follower)
	})
	for _, e := range append(events[2:], follower) {
		err := e.Wait(background)
		require.ErrorIs(t, err, device.ErrLost)
		require.Contains(t, err.Error(), "CUDA_ERROR_LAUNCH_FAILED")
		require.Contains(t, err.Error(), "cuda:0")
	}

	require.True(t, q.Failed(), "what comes later fails at once")
	require.ErrorIs(t, q.Err(), device.ErrLost)
	within(q, func() {
		add.launch(q, x, x)
		q.Upload(x, 0, []byte{1})
	})
	require.ErrorIs(t, finishOn(q, events[0]), device.ErrLost)
	_, err := d.Alloc(1)
	require.ErrorIs(t, err, device.ErrLost)
	require.ErrorContains(t, err, "cuda:0: the GPU was lost earlier: cuda:0: cu")
	_, err = d.AllocHost(1)
	require.ErrorIs(t, err, device.ErrLost)
	_, err = d.NewQueue()
	require.ErrorIs(t, err, device.ErrLost)
	_, err = d.Load([]byte("other"))
	require.ErrorIs(t, err, device.ErrLost)

	q2 := newQueue(t, other)
	y := newBuffer(t, other, 4)
	upload(t, q2, y, floatBytes(2))
	add2 := newAdder(t, other, 1)
	within(q2, func() { add2.launch(q2, y, y) })
	require.Equal(t, floatBytes(4), download(t, q2, y, 4))
	e2 := newEvent(t, q2)
	within(q2, func() {
		q2.After(events[3])
		q2.Record(e2)
	})
	require.ErrorIs(t, e2.Wait(background), device.ErrLost)
	require.False(t, q2.Failed(), "the other GPU isn't lost")
}

func finishOn(q *Queue, e *Event) error {
	within(q, func() { q.Record(e) })
	return e.Wait(background)
}

// That a call fails with such an error means that the GPU is lost, whatever really
// happened to it: what was enqueued before is still waited for.
func TestACallThatLosesTheGPU(t *testing.T) {
	for _, code := range []int{46, 214, 220, 226, 700, 710, 719, 721, 999} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			d := oneGPU(t, fmt.Sprintf("slow:0@20ms,cuLaunchKernel:2=%d", code))
			q := newQueue(t, d)
			x := newBuffer(t, d, 4)
			add := newAdder(t, d, 1)
			e := newEvent(t, q)
			within(q, func() {
				add.launch(q, x, x)
				add.launch(q, x, x)
				require.True(t, q.Failed())
				q.Record(e)
			})
			err := e.Wait(background)
			require.ErrorIs(t, err, device.ErrLost)
			require.ErrorContains(t, err, "cuda:0: cuLaunchKernel: CUDA_ERROR_")
			require.ErrorContains(t, err, "leat_add")
			require.ErrorIs(t, finishOn(q, e), device.ErrLost)
		})
	}
}

// One that a GPU survives fails what was going on, no more.
func TestACallThatFails(t *testing.T) {
	d := oneGPU(t, "cuLaunchKernel:1=1,cuMemcpyHtoDAsync:2=1")
	q := newQueue(t, d)
	x := newBuffer(t, d, 4)
	add := newAdder(t, d, 1)
	e := newEvent(t, q)
	within(q, func() { add.launch(q, x, x) })
	err := finishOn(q, e)
	require.NotErrorIs(t, err, device.ErrLost)
	require.Regexp(t, `^cuda:0: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE \(.+\): leat_add$`, err.Error())
	upload(t, q, x, floatBytes(1))
	within(q, func() { q.Upload(x, 0, floatBytes(7)) })
	require.Regexp(t, `^cuda:0: cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE \(.+\)$`, finishOn(q, e).Error())
	within(q, func() { add.launch(q, x, x) })
	require.NoError(t, finishOn(q, e))
	require.Equal(t, floatBytes(2), download(t, q, x, 4))
}

func TestProgramsAreLoadedOnceAndSayWhatIsWrong(t *testing.T) {
	d := oneGPU(t, "")
	add := newAdder(t, d, 1)
	p, err := d.Load(ptx.Kernels)
	require.NoError(t, err)
	f, err := p.Function("leat_add")
	require.NoError(t, err)
	require.Same(t, add.f, f)
	_, err = p.Function("leat_nothing")
	require.ErrorContains(t, err, "cuda:0: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (")
	require.ErrorContains(t, err, `"leat_nothing"`)
	_, err = d.Load([]byte("this is no program"))
	require.ErrorContains(t, err, "cuda:0: cuModuleLoadDataEx: CUDA_ERROR_")
	require.NotErrorIs(t, err, device.ErrLost)
	require.NotContains(t, err.Error(), "\n")
}

// Whatever call fails, and however often it was made before, the error names it, and
// nothing is left over. The emulated driver tells what was.
func TestEveryCallMayFail(t *testing.T) {
	for s := cuDeviceGetCount; s < cuGetErrorName; s++ {
		if s == cuDevicePrimaryCtxRelease {
			continue // then a context does stay
		}
		for _, code := range []int{1, 719} {
			for n := 1; n <= 3 && (n < 2 || !testing.Short()); n++ {
				fault := fmt.Sprintf("%s:%d=%d", s, n, code)
				for _, noPeer := range []bool{false, true} {
					t.Run(fmt.Sprint(fault, noPeer), func(t *testing.T) {
						emulator.Use(t, emulator.Machine{GPUs: 2, Fault: fault, NoPeer: noPeer})
						err := everything(t)
						for _, r := range emulator.Reports() {
							// A GPU whose work has failed still ends the copy that it was at.
							if code == 1 || !strings.HasPrefix(r, "race: ") {
								t.Error(r)
							}
						}
						if err != nil {
							if errors.Is(err, device.ErrLost) { // another call may have told first
								require.ErrorContains(t, err, ": CUDA_ERROR_LAUNCH_FAILED")
							} else {
								require.ErrorContains(t, err, s.String()+": CUDA_ERROR_INVALID_VALUE")
							}
						}
					})
				}
			}
		}
	}
}

// everything uses two GPUs for all that they are for, and gives back all of it. It
// returns the first error.
func everything(t *testing.T) (first error) {
	keep := func(err error) bool {
		if first == nil {
			first = err
		}
		return err == nil
	}
	var ds [2]*Device
	var qs [2]*Queue
	var bs [2]device.Buffer
	for i := range ds {
		d, err := backend.Open(nameOf(i))
		if !keep(err) {
			return
		}
		ds[i] = d.(*Device)
		defer func() { keep(d.Close()) }()
		q, err := d.NewQueue()
		if !keep(err) {
			return
		}
		qs[i] = q.(*Queue)
		if bs[i], err = d.Alloc(3 * driver.PieceBytes); !keep(err) {
			keep(q.Close())
			return
		}
		defer func() { keep(bs[i].Free()) }()
		defer func() { keep(q.Close()) }()
	}
	p, err := ds[0].Load(ptx.Kernels)
	if !keep(err) {
		return
	}
	f, err := p.Function("leat_add")
	if !keep(err) {
		return
	}
	ready, err := qs[0].NewEvent()
	if !keep(err) {
		return
	}
	moved, err := qs[1].NewEvent()
	if !keep(err) {
		return
	}
	tr, err := device.NewTransfer(ds[0], qs[1])
	if !keep(err) {
		return
	}
	defer func() { keep(tr.Close()) }()
	add := &adder{f, 4, make([]byte, 24)}
	for range 2 {
		within(qs[0], func() {
			qs[0].Upload(bs[0], 0, floatBytes(1, 2, 3, 4))
			add.launch(qs[0], bs[0], bs[0])
			qs[0].Record(ready)
		})
		_, err := tr.Move(background, bs[1], bs[0], 3*driver.PieceBytes, ready)
		keep(err)
		got := make([]byte, 16)
		within(qs[1], func() {
			qs[1].Download(got, bs[1], 0)
			qs[1].Record(moved)
		})
		keep(ready.Wait(background))
		if keep(moved.Wait(background)) && err == nil && first == nil {
			require.Equal(t, floatBytes(2, 4, 6, 8), got)
		}
	}
	return
}
