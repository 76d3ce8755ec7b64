package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

// strange is a device whose queues are not of package device/cpu.
type strange struct{ device.Device }

type strangeQueue struct{ device.Queue }

func (strangeQueue) Close() error { return nil }

func (strange) Info() device.Info               { return device.Info{Name: "strange:0"} }
func (strange) NewQueue() (device.Queue, error) { return strangeQueue{}, nil }

// dated is a device of a SIMD level that there is none of.
type dated struct{ device.Device }

func (d dated) Info() device.Info {
	i := d.Device.Info()
	i.SIMD = "mmx"
	return i
}

func TestNewQueueRefuses(t *testing.T) {
	_, err := backend{}.NewQueue(strange{})
	require.ErrorContains(t, err, "strange:0")
	_, err = backend{}.NewQueue(dated{kerneltest.CPU(t, 1)})
	require.ErrorContains(t, err, "mmx")
}

// Values are filled up to whole panels of 16 elements, keys aren't.
func TestCacheOfOddHeads(t *testing.T) {
	said, err := backend{}.CacheBytes(kernels.CacheSpec{Type: kernels.F16, Heads: 1, HeadDim: 8, Pages: 1})
	require.NoError(t, err)
	require.EqualValues(t, 32*(8+16)*2, said)
}
