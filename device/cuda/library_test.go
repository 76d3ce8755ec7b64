package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/device/cpu"
	"github.com/leat-dev/leat/device/internal/driver"
	"github.com/leat-dev/leat/internal/emulator"
)

func TestNoLibraryIsTriedAgain(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	there := os.Getenv(LibraryVariable)
	missing := filepath.Join(t.TempDir(), "libcuda.so.1")
	t.Setenv(LibraryVariable, missing)
	var l library
	_, err := l.driver()
	require.ErrorContains(t, err, "LEAT_CUDA_LIBRARY: "+missing)
	require.NotContains(t, err.Error(), "\n")

	t.Setenv(LibraryVariable, there)
	d, err := l.driver()
	require.NoError(t, err)
	again, err := l.driver()
	require.NoError(t, err)
	require.Same(t, d, again)
}

func TestNoDriver(t *testing.T) {
	t.Setenv(LibraryVariable, "")
	var l library
	_, err := l.driver()
	if err == nil || !strings.HasPrefix(err.Error(), "no NVIDIA driver: ") {
		t.Skipf("this machine has an NVIDIA driver (%v)", err)
	}
	require.Contains(t, err.Error(), libraryName())
}

// compile makes a library of C text.
func compile(t *testing.T, text string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil || runtime.GOOS != "linux" {
		t.Skip("no C compiler to make a library with")
	}
	folder := t.TempDir()
	source, library := filepath.Join(folder, "driver.c"), filepath.Join(folder, "libcuda.so.1")
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	said, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, string(said))
	return library
}

func TestALibraryWithoutAFunction(t *testing.T) {
	for text, want := range map[string]string{
		"int nothing;": "lacks the function cuDriverGetVersion: it is not a CUDA driver that Leat can use",
		"int cuDriverGetVersion(int *v) { *v = 12040; return 0; }": "lacks the function cuInit: it is no",
		// Whatever else it lacks, its age says more.
		"int cuDriverGetVersion(int *v) { *v = 11080; return 0; }": "Leat needs a driver for CUDA 12.4 or newer (550.54 or later on Linux, 551.61 on Windows), this one is for 11.8",
	} {
		path := compile(t, text)
		t.Setenv(LibraryVariable, path)
		var l library
		_, err := l.driver()
		require.ErrorContains(t, err, LibraryVariable+": "+path)
		require.ErrorContains(t, err, want)
	}
}

func TestADriverTooOld(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1, Driver: 12020})
	refused(t, "needs a driver for CUDA 12.4 or newer (550.54 or later on Linux, 551.61 on Windows), this one is for 12.2")
}

func TestNoGPU(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: -1})
	refused(t, "cuInit: CUDA_ERROR_NO_DEVICE (")
}

func TestADriverThatDoesNotStart(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1, Fault: "cuInit:1+=999"})
	refused(t, "cuInit: CUDA_ERROR_UNKNOWN (")
}

func TestWhatHelpsADriverToStart(t *testing.T) {
	for code, want := range map[result]string{
		noDevice:           "CUDA_VISIBLE_DEVICES",
		systemNotReady:     "fabric manager",
		driverMismatch:     "restart the machine",
		compatNotSupported: "compatibility package",
		unknownError:       "nvidia-uvm",
	} {
		emulator.Use(t, emulator.Machine{GPUs: 1, Fault: fmt.Sprintf("cuInit:1+=%d", code)})
		refused(t, want)
		_, err := backend.Open("cuda:0")
		require.NotErrorIs(t, err, device.ErrLost, "there was none to lose")
	}
	require.Empty(t, advice(cuLaunchKernel, unknownError), "it is about starting")
}

func TestTheToolkitsStubIsNoDriver(t *testing.T) {
	t.Setenv(LibraryVariable, compile(t, "int cuDriverGetVersion(int *v) { return 34; }\n"+functions(cuDriverGetVersion)))
	var l library
	_, err := l.driver()
	require.ErrorContains(t, err, "cuDriverGetVersion: error 34: this is the CUDA toolkit's stub")
}

// functions is C text of all that a driver's library has but for those named.
func functions(but ...symbol) (text string) {
	for s := range symbols {
		if !slices.Contains(but, s) {
			text += "int " + symbolNames[s] + "(void) { return 0; }\n"
		}
	}
	return text
}

func TestADriverThatCountsNoGPU(t *testing.T) {
	text := "int cuDriverGetVersion(int *v) { *v = 12040; return 0; }\nint cuDeviceGetCount(int *n) { *n = 0; return 0; }\n"
	t.Setenv(LibraryVariable, compile(t, text+functions(cuDriverGetVersion, cuDeviceGetCount)))
	var l library
	_, err := driver.Backend{Of: device.CUDA, Load: l.load}.Resolve("cuda:0", 0)
	require.EqualError(t, err, "the driver is there, but it has no GPU")
}

func TestABusyGPU(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1, Fault: "busy:0"})
	refused(t, "cuda:0: cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (")
}

// refused checks that the GPU can't be had, for that reason on one line, and that
// "auto" takes the CPU.
func refused(t *testing.T, reason string) {
	t.Helper()
	infos, err := backend.Discover()
	require.Empty(t, infos)
	require.ErrorContains(t, err, reason)
	require.NotContains(t, err.Error(), "\n")
	_, err = backend.Resolve("cuda:0", 0)
	require.ErrorContains(t, err, reason)
	_, err = backend.Open("cuda:0")
	require.ErrorContains(t, err, reason)

	_, missing := device.Discover()
	require.Contains(t, reasonOf(missing), reason)
	places, err := device.Resolve("auto", 0)
	require.NoError(t, err)
	require.Len(t, places, 1)
	require.Equal(t, device.CPU, places[0].Info.Kind)
}

func reasonOf(missing []device.Unavailable) string {
	for _, u := range missing {
		if u.Kind == device.CUDA {
			return u.Reason
		}
	}
	return ""
}
