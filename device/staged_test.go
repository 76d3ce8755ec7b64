package device

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bytesOf is n bytes that differ from those of another seed nearly everywhere.
func bytesOf(n int, seed byte) []byte {
	b := make([]byte, n)
	const period = 65_521 // a prime number, so that no piece begins like another
	for i := range min(n, period) {
		b[i] = byte(i*7+i>>8*13) + seed
	}
	for i := period; i < n; i += copy(b[i:], b[:i]) {
	}
	return b
}

// Devices of any two kinds may be neighbours, whatever the two have: pinned memory,
// queues for copies, a memory of their own or the host's.
func TestAnyTwoDevicesMayBeNeighbours(t *testing.T) {
	own := map[string]func() Device{
		"cpu:0":   func() Device { return mainland{"cpu:0"} },
		"cpu:1":   func() Device { return mainland{"cpu:1"} },
		"cuda:0":  func() Device { return port{newIsland("cuda:0", CUDA)} },
		"rocm:0":  func() Device { return port{newIsland("rocm:0", ROCm)} },
		"metal:0": func() Device { return newIsland("metal:0", Metal) },
	}
	for a := range own {
		for b := range own {
			t.Run(a+" to "+b, func(t *testing.T) {
				from, to := own[a](), own[b]()
				if a == b {
					to = from
				}
				t.Cleanup(func() {
					require.NoError(t, from.Close())
					require.NoError(t, to.Close())
				})
				const most = 5*pieceBytes + 123
				c := newCrossing(t, from, to, most)
				require.Equal(t, from.Info().SharesMemory(to.Info()), c.transfer.InPlace())
				for i, n := range []int{0, 1, pieceBytes, pieceBytes + 1, 3 * pieceBytes, most, 17, most} {
					data := bytesOf(n, byte(i))
					at, err := c.send(t.Context(), data)
					require.NoError(t, err)
					if c.transfer.InPlace() {
						require.Same(t, c.src, at)
					} else {
						require.Same(t, c.into, at)
					}
					got, err := c.receive(at, n)
					require.NoError(t, err)
					require.Equal(t, data, got)
				}
			})
		}
	}
}

// What a transfer holds of the host's memory doesn't grow with what goes through it.
func TestATransferHoldsTwoPiecesASide(t *testing.T) {
	from, to := port{newIsland("cuda:0", CUDA)}, port{newIsland("rocm:0", ROCm)}
	receiver, err := to.NewQueue()
	require.NoError(t, err)
	transfer, err := NewTransfer(from, receiver)
	require.NoError(t, err)
	require.EqualValues(t, 2*pieceBytes, from.Allocated())
	require.EqualValues(t, 2*pieceBytes, to.Allocated())
	staged := transfer.(*staged)
	require.True(t, staged.down.queue.(*islandQueue).copies)
	require.True(t, staged.up.queue.(*islandQueue).copies)
	require.NoError(t, transfer.Close())
	require.NoError(t, receiver.Close())
	require.NoError(t, from.Close())
	require.NoError(t, to.Close())
}

// The host is through with a Move while the receiver's copy is still under way, and
// what the receiver enqueues afterwards waits for it.
func TestTheReceivingQueueWaitsForTheUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newIsland("rocm:0", ROCm)
		c := newCrossing(t, newIsland("cuda:0", CUDA), to, 2*pieceBytes)
		open := to.gate("Upload")
		data := bytesOf(2*pieceBytes, 3)
		at, err := c.send(t.Context(), data)
		require.NoError(t, err)
		read := false
		go func() {
			synctest.Wait()
			assert.False(t, read)
			open()
		}()
		got, err := c.receive(at, len(data))
		read = true
		require.NoError(t, err)
		require.Equal(t, data, got)
	})
}

func TestAMoveEndsWithItsContext(t *testing.T) {
	for _, op := range []string{"Download", "Upload"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := newIsland("cuda:0", CUDA), newIsland("rocm:0", ROCm)
				c := newCrossing(t, from, to, 5*pieceBytes)
				data := bytesOf(5*pieceBytes, 1)
				ctx, cancel := context.WithCancel(t.Context())

				// The sender isn't done: nothing was copied yet.
				openSender := from.gate("Upload")
				go func() { synctest.Wait(); cancel() }()
				_, err := c.send(ctx, data)
				require.ErrorIs(t, err, context.Canceled)
				openSender()
				require.NoError(t, c.ready.Wait(t.Context()))

				// A copy takes long. It must be over before Move returns.
				ctx, cancel = context.WithCancel(t.Context())
				side := map[string]*island{"Download": from, "Upload": to}[op]
				open := side.gate(op)
				returned := false
				go func() {
					synctest.Wait()
					cancel()
					synctest.Wait()
					assert.False(t, returned, "a copy is under way")
					open()
				}()
				_, err = c.send(ctx, data)
				returned = true
				require.ErrorIs(t, err, context.Canceled)

				at, err := c.send(t.Context(), data)
				require.NoError(t, err)
				got, err := c.receive(at, len(data))
				require.NoError(t, err)
				require.Equal(t, data, got)
			})
		})
	}
}

// Whatever goes wrong on either side is the error of the batch that it belongs to, and
// of no other.
func TestACopyThatFailsIsTheErrorOfItsBatch(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{1, 2 * pieceBytes, 6 * pieceBytes} {
		for _, which := range []string{"ready", "Download", "Upload", "After"} {
			t.Run(fmt.Sprintf("%s of %d bytes", which, n), func(t *testing.T) {
				from, to := newIsland("cuda:0", CUDA), newIsland("rocm:0", ROCm)
				c := newCrossing(t, from, to, 6*pieceBytes)
				for round := range 3 {
					switch data := bytesOf(n, byte(round)); which {
					case "ready":
						from.failing("Upload", broken)
						_, err := c.send(t.Context(), data)
						require.ErrorIs(t, err, broken)
					case "Download":
						from.failing(which, broken)
						_, err := c.send(t.Context(), data)
						require.ErrorIs(t, err, broken, "the bytes never reached the host")
					default:
						to.failing(which, broken)
						at, err := c.send(t.Context(), data)
						if err == nil {
							_, err = c.receive(at, n)
						}
						require.ErrorIs(t, err, broken)
					}
					for range 2 {
						data := bytesOf(6*pieceBytes, byte(100+round))
						at, err := c.send(t.Context(), data)
						require.NoError(t, err)
						got, err := c.receive(at, len(data))
						require.NoError(t, err)
						require.Equal(t, data, got)
					}
				}
			})
		}
	}
}

func TestWhatCannotBeMoved(t *testing.T) {
	far, other, near := newIsland("cuda:0", CUDA), newIsland("rocm:0", ROCm), mainland{"cpu:0"}
	for _, pair := range [][2]Device{{far, other}, {far, near}, {near, far}} {
		c := newCrossing(t, pair[0], pair[1], 8)
		for _, n := range []int64{-1, 9, 1 << 62} {
			_, err := c.transfer.Move(t.Context(), c.into, c.src, n, Done)
			require.EqualError(t, err, fmt.Sprintf("moving %d bytes from a buffer of 8 to one of 8", n))
		}
		_, err := c.transfer.Move(t.Context(), nil, c.src, 1, Done)
		require.ErrorContains(t, err, "a buffer is nil")
		_, err = c.transfer.Move(t.Context(), c.into, nil, 1, Done)
		require.ErrorContains(t, err, "a buffer is nil")
		stranger, err := newIsland("cuda:7", CUDA).Alloc(8)
		require.NoError(t, err)
		_, err = c.transfer.Move(t.Context(), stranger, c.src, 1, Done)
		require.ErrorContains(t, err, "cuda:7")
		_, err = c.transfer.Move(t.Context(), c.into, stranger, 1, Done)
		require.ErrorContains(t, err, "cuda:7")
	}
}

// A transfer that can't be made says between what, and leaves nothing behind.
func TestATransferThatCannotBeMade(t *testing.T) {
	broken := errors.New("broken")
	for _, op := range []string{"NewCopyQueue", "NewQueue", "NewEvent", "AllocHost"} {
		for _, side := range []string{"from", "to"} {
			from, to := port{newIsland("cuda:0", CUDA)}, port{newIsland("rocm:0", ROCm)}
			receiver, err := to.NewQueue()
			require.NoError(t, err)
			map[string]port{"from": from, "to": to}[side].failing(op, broken)
			_, err = NewTransfer(from, receiver)
			require.EqualError(t, err, "a transfer from cuda:0 to rocm:0: broken", "%s: %s", side, op)
			require.NoError(t, receiver.Close())
			require.NoError(t, from.Close())
			require.NoError(t, to.Close())
		}
	}
}

func TestDevicesThatShareAMemory(t *testing.T) {
	host, unified := Info{Name: "cpu:0", HostMemory: true}, Info{Name: "metal:0", Kind: Metal, HostMemory: true}
	a, b := Info{Name: "cuda:0"}, Info{Name: "cuda:1"}
	for _, pair := range []struct {
		a, b   Info
		shared bool
	}{{host, unified, true}, {host, a, false}, {unified, a, false}, {a, b, false}, {a, a, true}} {
		require.Equal(t, pair.shared, pair.a.SharesMemory(pair.b))
		require.Equal(t, pair.shared, pair.b.SharesMemory(pair.a))
	}
	require.Equal(t, "the host's memory", unified.MemoryName())
	require.Equal(t, "cuda:1", b.MemoryName())
}
