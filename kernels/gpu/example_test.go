package gpu_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/device/cpu"
	_ "github.com/leat-dev/leat/device/cuda"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/cpu"
	_ "github.com/leat-dev/leat/kernels/gpu"
)

// The most likely token of each of two rows of logits, on the machine's first GPU, or
// on its CPU if it has none: the calls are the same. A GPU's memory is out of the
// host's reach, so the result is downloaded.
func Example() {
	q, closeAll, err := openFirst()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closeAll()
	buffer, err := q.Device().Alloc(64)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer buffer.Free()
	logits := kernels.Tensor{Buf: buffer, Rows: 2, Cols: 3, Type: kernels.F32}
	best := kernels.Tensor{Buf: buffer, Off: 32, Rows: 2, Cols: 1, Type: kernels.I32}
	var words []byte
	for _, v := range []float32{0.5, 2, 1, -1, -3, -2} {
		words = binary.LittleEndian.AppendUint32(words, math.Float32bits(v))
	}
	result := make([]byte, best.Bytes())
	done, _ := q.NewEvent()

	q.Begin()
	q.Upload(buffer, logits.Off, words)
	q.ArgMax(best, logits)
	q.Download(result, buffer, best.Off)
	q.Record(done)
	q.End()
	if err := done.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(binary.LittleEndian.Uint32(result), binary.LittleEndian.Uint32(result[4:]))
	// Output: 1 0
}

// openFirst opens the best device that there is, with a queue.
func openFirst() (q kernels.Queue, closeAll func(), err error) {
	places, err := device.Resolve("auto", 0)
	if err != nil {
		return nil, nil, err
	}
	set := new(device.Set)
	d, err := set.Open(places[0].Info.Name)
	if err == nil {
		var backend kernels.Backend
		if backend, err = kernels.For(d.Info().Kind); err == nil {
			q, err = backend.NewQueue(d)
		}
	}
	if err != nil {
		set.Close()
		return nil, nil, err
	}
	return q, func() { q.Close(); set.Close() }, nil
}
