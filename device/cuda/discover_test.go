package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
)

func TestDiscover(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 3, Memory: "64MiB"})
	infos, err := backend.Discover()
	require.NoError(t, err)
	require.Len(t, infos, 3)
	for i, info := range infos {
		require.Equal(t, nameOf(i), info.Name)
		require.Equal(t, device.CUDA, info.Kind)
		require.Regexp(t, `^.*emulated.*, compute capability \d+\.\d, PCI [0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.0$`, info.Description)
		require.EqualValues(t, 64<<20, info.Memory)
		require.Positive(t, info.Free)
		require.LessOrEqual(t, info.Free, info.Memory)
		require.Len(t, info.Peers, 2)
		require.NotContains(t, info.Peers, info.Name)
	}
	require.NotEqual(t, infos[0].Description, infos[1].Description, "the bus tells two of one make apart")
}

func TestDiscoverWithoutPeers(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2, NoPeer: true})
	infos, err := backend.Discover()
	require.NoError(t, err)
	require.Empty(t, infos[0].Peers)
}

func TestDiscoverNamesTheGPUThatCannotBeUsed(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2, Fault: "busy:0"})
	infos, err := backend.Discover()
	require.Len(t, infos, 1)
	require.Equal(t, "cuda:1", infos[0].Name)
	require.ErrorContains(t, err, "cuda:0: cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE")
	require.ErrorContains(t, err, "the GPU is busy")
	require.NotErrorIs(t, err, device.ErrLost)

	found, missing := device.Discover()
	require.Equal(t, "cuda:1", found[0].Name)
	require.Contains(t, reasonOf(missing), "cuda:0")
}

func TestFreeIsWhatIsFreeNow(t *testing.T) {
	d := oneGPU(t, "")
	infos, err := backend.Resolve("cuda:0", 0)
	require.NoError(t, err)
	before := infos[0].Free
	newBuffer(t, d, 8<<20)
	infos, err = backend.Resolve("cuda:0", 0)
	require.NoError(t, err)
	require.LessOrEqual(t, infos[0].Free, before-8<<20)
}

func TestNames(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2})
	for _, name := range []string{"cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda:01", "cuda:0-1", "cuda/2", "cuda:99999999999", "gpu:0", ""} {
		_, err := backend.Resolve(name, 0)
		require.ErrorAs(t, err, new(*device.ListError), name)
		_, err = backend.Open(name)
		require.ErrorAs(t, err, new(*device.ListError), name)
	}
	_, err := backend.Resolve("cuda:7", 0)
	require.EqualError(t, err, "cuda:7 does not exist: there are cuda:0 and cuda:1")
	_, err = backend.Open("cuda:2")
	require.ErrorContains(t, err, "cuda:2 does not exist")
	require.NotErrorAs(t, err, new(*device.ListError))
}

func TestItIsRegistered(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 2, Memory: "64MiB"})
	places, err := device.Resolve("cuda:1=50%,cpu", 0)
	require.NoError(t, err)
	require.Len(t, places, 2)
	require.Equal(t, "cuda:1", places[0].Info.Name)
	require.Equal(t, places[0].Info.Free/2, places[0].Budget)

	auto, err := device.Resolve("auto", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"cuda:0", "cuda:1"}, []string{auto[0].Info.Name, auto[1].Info.Name}, "GPUs come first")

	var set device.Set
	d, err := set.Open("cuda:1")
	require.NoError(t, err)
	require.Equal(t, "cuda:1", d.Info().Name)
	require.NoError(t, set.Close())
}
