package cuda

import (
	"fmt"
	"unsafe"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/internal/driver"
)

// oldestMajor and oldestMinor are the compute capability that the kernels need.
const oldestMajor, oldestMinor = 7, 5

// version returns the driver's version as cuDriverGetVersion counts.
func (d *cuda) version() (int32, error) {
	var version int32
	q := questions{calls: calls{cuda: d}}
	q.ask(cuDriverGetVersion, uintptr(unsafe.Pointer(&version)))
	return version, q.failed()
}

// Count returns how many GPUs the driver has.
func (d *cuda) Count() (int, error) {
	var n int32
	q := questions{calls: calls{cuda: d}}
	q.ask(cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), q.failed()
}

// Handle returns the driver's handle of GPU i.
func (d *cuda) Handle(i int) (int32, error) {
	var handle int32
	q := questions{calls: calls{cuda: d}}
	q.ask(cuDeviceGet, uintptr(unsafe.Pointer(&handle)), uintptr(i))
	return handle, q.failed()
}

// Describe says what can be said of a GPU without a context.
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

// questions are calls of which the first that fails ends the rest.
type questions struct {
	calls
	err *driver.Error
}

// ask calls a function, as calls.fill does.
//
//go:uintptrescapes
func (q *questions) ask(s symbol, args ...uintptr) {
	if q.err == nil {
		q.err = q.do(s, args...)
	}
}

// failed is the error of the call that failed, nil if none did.
func (q *questions) failed() error {
	if q.err == nil {
		return nil
	}
	return q.err
}
