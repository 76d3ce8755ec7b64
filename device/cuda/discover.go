package cuda

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
)

// oldestMajor and oldestMinor are the lowest compute capability that the kernels support.
const oldestMajor, oldestMinor = 7, 5

// version returns the driver's version in the form of cuDriverGetVersion.
func (d *cuda) version() (int32, error) {
	var version int32
	q := questions{calls: calls{cuda: d}}
	q.ask(cuDriverGetVersion, uintptr(unsafe.Pointer(&version)))
	return version, q.failed()
}

// Count returns the number of the driver's GPUs.
func (d *cuda) Count() (int, error) {
	var n int32
	q := questions{calls: calls{cuda: d}}
	q.ask(cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), q.failed()
}

// Handle returns the driver's handle for GPU i.
func (d *cuda) Handle(i int) (int32, error) {
	var handle int32
	q := questions{calls: calls{cuda: d}}
	q.ask(cuDeviceGet, uintptr(unsafe.Pointer(&handle)), uintptr(i))
	return handle, q.failed()
}

// Describe returns what is known of a GPU without a context. It is an error if the kernels
// don't support the GPU's compute capability.
func (d *cuda) Describe(gpu int32, name string) (info device.Info, err error) {
	var of struct {
		major, minor int32
		total        uint64
		name         [256]byte
		bus          [32]byte
	}
	q, handle := questions{calls: calls{cuda: d}}, uintptr(gpu)
	q.ask(cuDeviceGetName, uintptr(unsafe.Pointer(&of.name)), uintptr(len(of.name)), handle)
	q.ask(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&of.major)), attributeCapabilityMajor, handle)
	q.ask(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&of.minor)), attributeCapabilityMinor, handle)
	q.ask(cuDeviceTotalMem, uintptr(unsafe.Pointer(&of.total)), handle)
	q.ask(cuDeviceGetPCIBusId, uintptr(unsafe.Pointer(&of.bus)), uintptr(len(of.bus)), handle)
	if err := q.failed(); err != nil {
		return info, err
	}
	info.Memory = int64(of.total)
	info.Description = fmt.Sprintf("%s, compute capability %d.%d, PCI %s",
		until0(of.name[:]), of.major, of.minor, until0(of.bus[:]))
	if of.major < oldestMajor || of.major == oldestMajor && of.minor < oldestMinor {
		return info, fmt.Errorf("%s: %s: Leat needs compute capability %d.%d or higher",
			name, info.Description, oldestMajor, oldestMinor)
	}
	return info, nil
}

// questions makes calls until one fails; the calls after that are skipped.
type questions struct {
	calls
	err *driver.Error
}

// ask calls a function as calls.fill does, unless an earlier call failed.
//
//go:uintptrescapes
func (q *questions) ask(s symbol, args ...uintptr) {
	if q.err == nil {
		q.err = q.do(s, args...)
	}
}

// failed returns the error of the call that failed, or nil if none did.
func (q *questions) failed() error {
	if q.err == nil {
		return nil
	}
	return q.err
}
