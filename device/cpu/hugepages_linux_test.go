package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

func TestHugePagesOf(t *testing.T) {
	for setting, want := range map[string]bool{
		"always [madvise] never\n": true,
		"[always] madvise never\n": true,
		"always madvise [never]\n": false,
		"":                         false,
	} {
		assert.Equal(t, want, hugePagesOf(setting), setting)
	}
}

// A large buffer is on huge pages, as far as it is a whole number of them, where the device
// says so.
func TestLargeBuffersAreOnHugePages(t *testing.T) {
	var set device.Set
	d, err := set.Open("cpu/1")
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Close()) }()
	if !d.Info().HugePages {
		t.Skip("the system has no huge pages")
	}
	const size = 64 << 20
	buf, err := d.Alloc(size)
	require.NoError(t, err)
	defer func() { require.NoError(t, buf.Free()) }()
	mem := buf.Bytes()
	for at := 0; at < size; at += 4096 {
		mem[at] = 1
	}
	huge := hugeBytes(t, uint64(uintptr(unsafe.Pointer(&mem[0]))))
	if huge == 0 {
		t.Skip("the system has no huge page free")
	}
	assert.GreaterOrEqual(t, huge, size/2)
}

// hugeBytes returns the bytes on huge pages of the mapping that holds an address.
func hugeBytes(t *testing.T, address uint64) int {
	maps, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer maps.Close()
	ours := false
	for s := bufio.NewScanner(maps); s.Scan(); {
		first, _, _ := strings.Cut(s.Text(), " ")
		if from, to, ok := strings.Cut(first, "-"); ok && !strings.HasSuffix(first, ":") {
			a, err := strconv.ParseUint(from, 16, 64)
			require.NoError(t, err)
			b, err := strconv.ParseUint(to, 16, 64)
			require.NoError(t, err)
			ours = a <= address && address < b
		}
		var kilobytes int
		if n, _ := fmt.Sscanf(s.Text(), "AnonHugePages: %d kB", &kilobytes); n == 1 && ours {
			return kilobytes << 10
		}
	}
	t.Fatal("no mapping has the address")
	return 0
}
