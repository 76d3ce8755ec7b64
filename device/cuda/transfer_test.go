package cuda

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/internal/emulator"
)

func sizes() []int64 {
	if testing.Short() {
		return []int64{0, 1, 3*driver.PieceBytes + 12345}
	}
	return []int64{0, 1, 4096, driver.PieceBytes, driver.PieceBytes + 1, 2*driver.PieceBytes + 12345, 5 * driver.PieceBytes}
}

// openCPU opens the CPU beside the GPUs.
func openCPU(t testing.TB) device.Device {
	t.Helper()
	var set device.Set
	d, err := set.Open("cpu")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return d
}

func newTransfer(t testing.TB, from device.Device, to device.Queue) device.Transfer {
	t.Helper()
	tr, err := device.NewTransfer(from, to)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, tr.Close())
		require.NoError(t, tr.Close(), "once is enough, twice does no harm")
	})
	return tr
}

func anyQueue(t testing.TB, d device.Device) device.Queue {
	t.Helper()
	q, err := d.NewQueue()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

// TestEveryPath moves batches, several under way at once, between all pairs of two
// GPUs and a CPU.
func TestEveryPath(t *testing.T) {
	for _, noPeer := range []bool{false, true} {
		emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: noPeer})
		devices := map[string]func(testing.TB) device.Device{
			"cpu":    openCPU,
			"cuda:0": func(t testing.TB) device.Device { return openGPU(t, "cuda:0") },
			"cuda:1": func(t testing.TB) device.Device { return openGPU(t, "cuda:1") },
		}
		for a, openA := range devices {
			for b, openB := range devices {
				if a == "cpu" && b == "cpu" {
					continue
				}
				t.Run(fmt.Sprintf("%s to %s, peers %t", a, b, !noPeer), func(t *testing.T) {
					from := openA(t)
					to := from
					if a != b {
						to = openB(t)
					}
					sender, receiver := anyQueue(t, from), anyQueue(t, to)
					tr := newTransfer(t, from, receiver)
					require.Equal(t, a == b, tr.InPlace())
					require.Equal(t, noPeer && a != b && a != "cpu" && b != "cpu", driver.Detours(tr))
					for _, n := range sizes() {
						moveAll(t, tr, sender, receiver, n)
					}
				})
			}
		}
	}
}

// stranger is a GPU as one of another kind sees it: it has no path of its own.
type stranger struct {
	device.Device
	device.Pinner
	device.Copier
}

// strangersQueue is a queue of a stranger.
type strangersQueue struct {
	device.Queue
	owner stranger
}

func (q strangersQueue) Device() device.Device { return q.owner }

// strangers are two GPUs that know nothing of each other, with a queue of the second.
func strangers(t testing.TB) (a, b *Device, from device.Device, to device.Queue) {
	t.Helper()
	a, b = openGPU(t, "cuda:0"), openGPU(t, "cuda:1")
	return a, b, stranger{a, a, a}, strangersQueue{newQueue(t, b), stranger{b, b, b}}
}

// GPUs of two kinds are neighbours through the host's memory.
func TestGPUsWithoutAPathOfTheirOwn(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2})
	a, _, from, to := strangers(t)
	sender := newQueue(t, a)
	tr := newTransfer(t, from, to)
	require.False(t, tr.InPlace())
	for _, n := range sizes() {
		moveAll(t, tr, sender, to, n)
	}
}

// What one of two strangers loses is the error of the batch, and names it.
func TestAMoveBetweenStrangersOfWhichOneIsLost(t *testing.T) {
	for _, lost := range []int{0, 1} {
		emulator.Use(t, emulator.Machine{GPUs: 2, Fault: fmt.Sprintf("vanish:%d@1", lost)})
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			a, b, from, to := strangers(t)
			gpus := [2]*Device{a, b}
			sender := newQueue(t, a)
			src, into := newBuffer(t, a, 16), newBuffer(t, b, 16)
			tr := newTransfer(t, from, to)
			ready := newEvent(t, sender)
			moved, err := to.NewEvent()
			require.NoError(t, err)
			within(sender, func() { sender.Record(ready) })
			busy, x := newQueue(t, gpus[lost]), newBuffer(t, gpus[lost], 4)
			add, computed := newAdder(t, gpus[lost], 1), newEvent(t, busy)
			within(busy, func() {
				add.launch(busy, x, x)
				busy.Record(computed)
			})
			require.ErrorIs(t, computed.Wait(background), device.ErrLost)
			if _, err = tr.Move(background, into, src, 16, ready); err == nil {
				within(to, func() { to.Record(moved) })
				err = moved.Wait(background)
			}
			require.ErrorIs(t, err, device.ErrLost)
			require.ErrorContains(t, err, nameOf(lost))
			require.NoError(t, gpus[1-lost].Lost(), "the other one isn't lost")
		})
	}
}

// A GPU that may reach another, but has no room for one more, takes the detour.
func TestAGPUWithoutRoomForAPeer(t *testing.T) {
	for _, code := range []result{tooManyPeers, peerUnsupported, notSupported} {
		emulator.Use(t, emulator.Machine{GPUs: 2, Fault: fmt.Sprintf("cuCtxEnablePeerAccess:1+=%d", code)})
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			sender, receiver := newQueue(t, openGPU(t, "cuda:0")), newQueue(t, openGPU(t, "cuda:1"))
			tr := newTransfer(t, sender.Device(), receiver)
			require.True(t, driver.Detours(tr))
			moveAll(t, tr, sender, receiver, 3*driver.PieceBytes+1)
		})
	}
}

// GPUs between which copies get lost take the detour too.
func TestGPUsThatOnlySayTheyReachEachOther(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2, LossyPeer: true})
	sender, receiver := newQueue(t, openGPU(t, "cuda:0")), newQueue(t, openGPU(t, "cuda:1"))
	for range 2 {
		tr := newTransfer(t, sender.Device(), receiver)
		require.True(t, driver.Detours(tr))
		moveAll(t, tr, sender, receiver, 3*driver.PieceBytes+1)
	}
}

func TestAFullGPUTakesTheDetour(t *testing.T) {
	// Before it come the status words of five queues: two here, one of the transfer and
	// two that prove it.
	emulator.Use(t, emulator.Machine{GPUs: 2, Fault: "cuMemAlloc:6=2"})
	sender, receiver := newQueue(t, openGPU(t, "cuda:0")), newQueue(t, openGPU(t, "cuda:1"))
	tr := newTransfer(t, sender.Device(), receiver)
	require.True(t, driver.Detours(tr))
	moveAll(t, tr, sender, receiver, 100)
}

// moveAll moves three batches of n bytes before it waits for the first, twice.
func moveAll(t *testing.T, tr device.Transfer, sender, receiver device.Queue, n int64) {
	t.Helper()
	const slots = 3
	var src, into [slots]device.Buffer
	var ready, moved [slots]device.Event
	var got [slots][]byte
	for i := range slots {
		src[i], into[i] = newBuffer(t, sender.Device(), n+3), newBuffer(t, receiver.Device(), n+5)
		got[i] = make([]byte, n)
		var err error
		ready[i], err = sender.NewEvent()
		require.NoError(t, err)
		moved[i], err = receiver.NewEvent()
		require.NoError(t, err)
	}
	for round := range 2 {
		for i := range slots {
			within(sender, func() {
				sender.Upload(src[i], 0, pattern(n, byte(i+round*slots)))
				sender.Record(ready[i])
			})
			b, err := tr.Move(background, into[i], src[i], n, ready[i])
			require.NoError(t, err)
			if tr.InPlace() {
				require.Same(t, src[i], b)
			} else {
				require.Same(t, into[i], b)
			}
			within(receiver, func() {
				receiver.Download(got[i], b, 0)
				receiver.Record(moved[i])
			})
		}
		for i := range slots {
			require.NoError(t, moved[i].Wait(background))
			require.Equal(t, pattern(n, byte(i+round*slots)), got[i])
		}
	}
}

func TestMovesAreChecked(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2})
	a, b, c := openGPU(t, "cuda:0"), openGPU(t, "cuda:1"), openCPU(t)
	qa, qb, qc := anyQueue(t, a), anyQueue(t, b), anyQueue(t, c)
	onA, onB, onC := newBuffer(t, a, 16), newBuffer(t, b, 8), newBuffer(t, c, 16)
	for _, tr := range []device.Transfer{newTransfer(t, a, qb), newTransfer(t, c, qb), newTransfer(t, b, qc)} {
		for _, n := range []int64{-1, 9, 1 << 62} {
			_, err := tr.Move(background, onB, onA, n, device.Done)
			require.ErrorContains(t, err, fmt.Sprintf("moving %d bytes from a buffer of 16 to one of 8", n))
		}
		_, err := tr.Move(background, nil, onA, 1, device.Done)
		require.ErrorContains(t, err, "a buffer is nil")
		_, err = tr.Move(background, onC, onA, 1, device.Done)
		require.Error(t, err)
	}
	_ = qa
}

// The host enqueues a copy from GPU to GPU and goes on; neither the copy nor what
// follows it waits for what the receiver computes beside it.
func TestCopiesOverlapWithCompute(t *testing.T) {
	for _, noPeer := range []bool{false, true} {
		emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: noPeer, Fault: "slow:1@400ms"})
		t.Run(fmt.Sprintf("peers %t", !noPeer), func(t *testing.T) {
			a, b := openGPU(t, "cuda:0"), openGPU(t, "cuda:1")
			sender, busy, receiver := newQueue(t, a), newQueue(t, b), newQueue(t, b)
			src, into, x := newBuffer(t, a, 4*driver.PieceBytes), newBuffer(t, b, 4*driver.PieceBytes), newBuffer(t, b, 4)
			tr := newTransfer(t, a, receiver)
			add := newAdder(t, b, 1)
			computed, ready, moved := newEvent(t, busy), newEvent(t, sender), newEvent(t, receiver)
			within(busy, func() {
				add.launch(busy, x, x)
				busy.Record(computed)
			})
			within(sender, func() {
				sender.Upload(src, 0, pattern(4*driver.PieceBytes, 9))
				sender.Record(ready)
			})
			_, err := tr.Move(background, into, src, 4*driver.PieceBytes, ready)
			require.NoError(t, err)
			within(receiver, func() { receiver.Record(moved) })
			require.NoError(t, moved.Wait(background))
			require.False(t, computed.Done(), "the copy was done while the kernel still ran")
			require.NoError(t, computed.Wait(background))
			require.Equal(t, pattern(4*driver.PieceBytes, 9), download(t, receiver, into, 4*driver.PieceBytes))
		})
	}
}

func TestAMoveBetweenGPUsDoesNotWaitForTheSender(t *testing.T) {
	for _, noPeer := range []bool{false, true} {
		emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: noPeer, Fault: "slow:0@200ms"})
		t.Run(fmt.Sprintf("peers %t", !noPeer), func(t *testing.T) {
			a, b := openGPU(t, "cuda:0"), openGPU(t, "cuda:1")
			sender, receiver := newQueue(t, a), newQueue(t, b)
			const n = 3 * driver.PieceBytes
			src, into := newBuffer(t, a, n), newBuffer(t, b, n)
			upload(t, sender, src, floatBytes(3))
			tr := newTransfer(t, a, receiver)
			add := newAdder(t, a, 1)
			ready, moved := newEvent(t, sender), newEvent(t, receiver)
			within(sender, func() {
				add.launch(sender, src, src)
				sender.Record(ready)
			})
			_, err := tr.Move(background, into, src, n, ready)
			require.NoError(t, err)
			within(receiver, func() { receiver.Record(moved) })
			require.False(t, ready.Done(), "the host is through while the sender still computes")
			require.NoError(t, moved.Wait(background))
			require.True(t, ready.Done())
			require.Equal(t, floatBytes(6), download(t, receiver, into, 4))
		})
	}
}

// What goes wrong before a move is the error of the batch after it.
func TestErrorsTravelWithABatch(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2, Fault: "slow:0@30ms"})
	a, b, c := openGPU(t, "cuda:0"), openGPU(t, "cuda:1"), openCPU(t)
	sender := newQueue(t, a)
	src := newBuffer(t, a, 16)
	add := newAdder(t, a, 4)
	broken := errors.New("broken")
	for _, to := range []device.Device{a, b, c} {
		for _, known := range []bool{false, true} {
			receiver := anyQueue(t, to)
			tr := newTransfer(t, a, receiver)
			into := newBuffer(t, to, 16)
			ready := newEvent(t, sender)
			moved, err := receiver.NewEvent()
			require.NoError(t, err)
			within(sender, func() {
				add.launch(sender, src, src)
				sender.Fail(broken)
				sender.Record(ready)
			})
			if known {
				require.Equal(t, broken, ready.Wait(background))
			}
			if _, err = tr.Move(background, into, src, 16, ready); err == nil {
				within(receiver, func() { receiver.Record(moved) })
				err = moved.Wait(background)
			}
			require.ErrorIs(t, err, broken, "%s, known %t", to.Info().Name, known)

			// The next batch has nothing to do with it.
			within(sender, func() { sender.Record(ready) })
			_, err = tr.Move(background, into, src, 16, ready)
			require.NoError(t, err)
			within(receiver, func() { receiver.Record(moved) })
			require.NoError(t, moved.Wait(background))
		}
	}
}

func TestAMoveToTheHostEndsWithItsContext(t *testing.T) {
	d := oneGPU(t, "slow:0@200ms")
	c := openCPU(t)
	sender, receiver := newQueue(t, d), anyQueue(t, c)
	src, into := newBuffer(t, d, 16), newBuffer(t, c, 16)
	add := newAdder(t, d, 4)
	tr := newTransfer(t, d, receiver)
	ready := newEvent(t, sender)
	within(sender, func() {
		add.launch(sender, src, src)
		sender.Record(ready)
	})
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := tr.Move(ctx, into, src, 16, ready)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, ready.Done(), "the kernel still runs")
	require.NoError(t, ready.Wait(background))
}

func TestAMoveFromTheHostEndsWithItsContext(t *testing.T) {
	d := oneGPU(t, "")
	c := openCPU(t)
	receiver := newQueue(t, d)
	src, into := newBuffer(t, c, 16), newBuffer(t, d, 16)
	tr := newTransfer(t, c, receiver)
	ctx, cancel := context.WithCancel(background)
	cancel()
	never := &foreign{done: make(chan struct{})}
	_, err := tr.Move(ctx, into, src, 16, never)
	require.ErrorIs(t, err, context.Canceled)
	never.err = errors.New("broken")
	close(never.done)
	_, err = tr.Move(background, into, src, 16, never)
	require.Equal(t, never.err, err)
}

func TestAMoveToOrFromALostGPU(t *testing.T) {
	for _, lost := range []int{0, 1} {
		for _, noPeer := range []bool{false, true} {
			emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: noPeer, Fault: fmt.Sprintf("vanish:%d@1", lost)})
			t.Run(fmt.Sprintf("%d, peers %t", lost, !noPeer), func(t *testing.T) {
				var ds [2]*Device
				var qs [2]*Queue
				var bs [2]device.Buffer
				var es [2]*Event
				for i := range ds {
					ds[i] = openGPU(t, nameOf(i))
					qs[i], bs[i] = newQueue(t, ds[i]), newBuffer(t, ds[i], 16)
					es[i] = newEvent(t, qs[i])
				}
				tr := newTransfer(t, ds[0], qs[1])
				add := newAdder(t, ds[lost], 1)
				within(qs[lost], func() {
					add.launch(qs[lost], bs[lost], bs[lost])
					qs[lost].Record(es[lost])
				})
				within(qs[0], func() { qs[0].Record(es[0]) })
				for range 2 { // before it is known, perhaps, and after
					_, err := tr.Move(background, bs[1], bs[0], 16, es[0])
					if err == nil {
						err = finishOn(qs[1], es[1])
					}
					require.ErrorIs(t, err, device.ErrLost)
					require.ErrorContains(t, err, nameOf(lost))
				}
				require.ErrorIs(t, ds[lost].Lost(), device.ErrLost)
				require.NoError(t, ds[1-lost].Lost(), "the other one isn't lost")
				upload(t, qs[1-lost], bs[1-lost], floatBytes(1))
			})
		}
	}
}

func TestMovesAllocateNothing(t *testing.T) {
	if race {
		t.Skip("under the race detector a sync.Pool that purego keeps forgets things")
	}
	for _, noPeer := range []bool{false, true} {
		emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: noPeer})
		t.Run(fmt.Sprintf("peers %t", !noPeer), func(t *testing.T) {
			a, b, c := openGPU(t, "cuda:0"), openGPU(t, "cuda:1"), openCPU(t)
			for _, pair := range [][2]device.Device{{a, a}, {a, b}, {a, c}, {c, a}, {stranger{a, a, a}, stranger{b, b, b}}} {
				sender, receiver := anyQueue(t, pair[0]), anyQueue(t, pair[1])
				if owner, ok := pair[1].(stranger); ok {
					receiver = strangersQueue{receiver, owner}
				}
				tr := newTransfer(t, pair[0], receiver)
				const n = 3 * driver.PieceBytes
				src, into := newBuffer(t, pair[0], n), newBuffer(t, pair[1], n)
				ready, err := sender.NewEvent()
				require.NoError(t, err)
				moved, err := receiver.NewEvent()
				require.NoError(t, err)
				batch := func() {
					sender.Begin()
					sender.Record(ready)
					sender.End()
					_, _ = tr.Move(background, into, src, n, ready)
					receiver.Begin()
					receiver.Record(moved)
					receiver.End()
					_ = moved.Wait(background)
				}
				batch()
				require.Zero(t, testing.AllocsPerRun(20, batch), "%s to %s", pair[0].Info().Name, pair[1].Info().Name)
				require.NoError(t, moved.Wait(background))
			}
		})
	}
}
