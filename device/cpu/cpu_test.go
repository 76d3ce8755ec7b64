package cpu

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
)

var (
	_ device.Backend = backend{}
	_ device.Device  = (*Device)(nil)
	_ device.Buffer  = (*Buffer)(nil)
	_ device.Queue   = (*Queue)(nil)
	_ device.Event   = (*Event)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openDevice(t testing.TB, name string) *Device {
	t.Helper()
	d, err := newBackend(processCores(), quota()).Open(name)
	require.NoError(t, err)
	return d.(*Device)
}

func TestTheMachineIsOneDevice(t *testing.T) {
	infos, err := newBackend(processCores(), quota()).Discover()
	require.NoError(t, err)
	require.Len(t, infos, 1)
	info := infos[0]
	require.Equal(t, device.CPU, info.Kind)
	require.NotEmpty(t, info.Description)
	require.NotEmpty(t, info.Cores)
	require.True(t, slices.IsSorted(info.Cores))
	require.Equal(t, nameOf(info.Cores), info.Name)
	require.Contains(t, simdLevels(), info.SIMD)
	if runtime.GOOS == "linux" {
		require.Positive(t, info.Memory)
		require.Positive(t, info.Free)
		require.LessOrEqual(t, info.Free, info.Memory)
	}
}

func TestItIsRegistered(t *testing.T) {
	places, err := device.Resolve("cpu,cpu/3=50MiB@2", 0)
	require.NoError(t, err)
	require.Len(t, places, 4)
	require.Equal(t, nameOf(processCores()), places[0].Info.Name)
	for _, p := range places[1:] {
		require.EqualValues(t, 50<<20, p.Budget)
	}

	var set device.Set
	a, err := set.Open(places[1].Info.Name)
	require.NoError(t, err)
	require.Equal(t, places[1].Info.Name, a.Info().Name)
	require.NoError(t, set.Close())

	_, err = device.Resolve("cpu:4000000", 0)
	require.ErrorContains(t, err, "device cpu:4000000: this process may not use core 4000000, only "+formatCores(processCores()))
	require.NotErrorAs(t, err, new(*device.ListError))
	_, err = device.Resolve("cpu/0", 0)
	require.ErrorAs(t, err, new(*device.ListError))
}

func TestOpenTakesOneDevice(t *testing.T) {
	_, err := newBackend([]int{0, 1}, 2).Open("cpu/2")
	require.EqualError(t, err, "cpu/2 is 2 devices: open one of them, such as cpu:0")
	_, err = newBackend([]int{0, 1}, 2).Open("cpu:9")
	require.ErrorContains(t, err, "this process may not use core 9")
}

func TestSIMDMayBeChosenLower(t *testing.T) {
	levels := []string{"avx512", "avx2", portable}
	for asked, want := range map[string]string{"": "avx512", "avx512": "avx512", "avx2": "avx2", portable: portable} {
		level, err := chooseSIMD(asked, levels)
		require.NoError(t, err)
		require.Equal(t, want, level)
	}
	for _, asked := range []string{"avx512-vnni", "AVX2", "neon"} {
		_, err := chooseSIMD(asked, levels)
		require.EqualError(t, err, "LEAT_SIMD="+asked+": this program supports only avx512, avx2, portable on this CPU")
	}
	require.Equal(t, portable, simdLevels()[len(simdLevels())-1])

	t.Setenv(SIMDVariable, portable)
	d := openDevice(t, "cpu")
	require.Equal(t, portable, d.Info().SIMD)
	require.NoError(t, d.Close())
	t.Setenv(SIMDVariable, "mmx")
	_, err := newBackend(processCores(), quota()).Open("cpu")
	require.ErrorContains(t, err, "LEAT_SIMD=mmx")
	_, err = newBackend(processCores(), quota()).Discover()
	require.ErrorContains(t, err, "LEAT_SIMD=mmx")
}

func TestAlloc(t *testing.T) {
	d := openDevice(t, "cpu")
	var buffers []device.Buffer
	var sum int64
	for _, n := range []int64{0, 1, 63, 4096, 4097, 9 << 20} {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		require.Equal(t, n, b.Size())
		require.Same(t, d, b.Device())
		mem := b.Bytes()
		require.NotNil(t, mem)
		require.Len(t, mem, int(n))
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%64)
		for i := range mem {
			if mem[i] != 0 {
				t.Fatalf("byte %d of %d is not zero", i, n)
			}
			mem[i] = 0xff // it is ours to write, to the last byte
		}
		buffers = append(buffers, b)
		sum += n
		require.Equal(t, sum, d.Allocated())
	}
	for _, b := range buffers {
		require.NoError(t, b.Free())
		require.NoError(t, b.Free())
		require.Nil(t, b.Bytes())
	}
	require.Zero(t, d.Allocated(), "freed twice, counted once")
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
}

func TestAllocSaysWhatWasAskedAndHeld(t *testing.T) {
	d := openDevice(t, "cpu")
	defer func() { require.NoError(t, d.Close()) }()
	held, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Free()) }()
	for _, n := range []int64{1 << 50, math.MaxInt64, math.MaxInt64 - 4095} {
		_, err := d.Alloc(n)
		require.ErrorContains(t, err, d.Info().Name+": can't allocate "+device.FormatSize(n)+": the device has allocated 1.0 MiB")
	}
	_, err = d.Alloc(-1)
	require.ErrorContains(t, err, "a buffer of -1 bytes")
	require.EqualValues(t, 1<<20, d.Allocated(), "what failed isn't counted")

	d.info.Memory = 0 // not known: then the system decides
	for _, n := range []int64{1 << 60, math.MaxInt64} {
		_, err := d.Alloc(n)
		require.ErrorContains(t, err, "can't allocate")
		require.ErrorContains(t, err, "the machine's memory is unknown")
	}
	require.EqualValues(t, 1<<20, d.Allocated())
}

func TestCloseReportsWhatWasNotFreed(t *testing.T) {
	d := openDevice(t, "cpu")
	a, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	b, err := d.Alloc(1 << 19)
	require.NoError(t, err)
	require.EqualError(t, d.Close(), d.Info().Name+": closed before 2 buffers of 1.5 MiB in total were freed")
	require.NoError(t, d.Close(), "once")

	a.Bytes()[0] = 1 // still there
	require.NoError(t, a.Free())
	require.NoError(t, b.Free())
	_, err = d.Alloc(1)
	require.ErrorContains(t, err, "the device is closed")
	_, err = d.NewQueue()
	require.ErrorContains(t, err, "the device is closed")
}

// Under a quota no device's threads are pinned: which cores it may use is not what it
// limits.
func TestNothingIsPinnedUnderAQuota(t *testing.T) {
	for quota, pinned := range map[int]bool{1: false, 2: canPin} {
		d, err := newBackend([]int{0, 1}, quota).Open("cpu:0")
		require.NoError(t, err)
		require.Equal(t, pinned, d.(*Device).pinned, "a quota of %d", quota)
		require.NoError(t, d.Close())
	}
}
