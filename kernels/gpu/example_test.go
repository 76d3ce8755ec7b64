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

// A product of two rows with a matrix of three, on the machine's first GPU, or on
// its CPU if it has none: the calls are the same.
func Example() {
	ctx := context.Background()
	places, _ := device.Resolve("auto", 0)
	var set device.Set
	defer set.Close()
	d, _ := set.Open(places[0].Info.Name)
	backend, _ := kernels.For(d.Info().Kind)
	q, _ := backend.NewQueue(d)
	defer q.Close()

	floats := func(x ...float32) (b []byte) {
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	w, err := q.Pack(ctx, kernels.Matrix{Name: "w", Type: kernels.F32, Rows: 3, Cols: 2, Data: floats(1, 0, 0, 1, 1, 1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Free()
	buffer, _ := d.Alloc(4 * (4 + 6))
	defer buffer.Free()
	x := kernels.Tensor{Buf: buffer, Rows: 2, Cols: 2, Type: kernels.F32}
	y := kernels.Tensor{Buf: buffer, Off: 16, Rows: 2, Cols: 3, Type: kernels.F32}
	result := make([]byte, y.Bytes())
	done, _ := q.NewEvent()

	q.Begin()
	q.Upload(buffer, 0, floats(2, 3, 5, 7))
	q.MatMul(x, []kernels.Product{{W: w, Dst: y}})
	q.Download(result, buffer, y.Off)
	q.Record(done)
	q.End()
	if err := done.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for ; len(result) > 0; result = result[4:] {
		fmt.Print(math.Float32frombits(binary.LittleEndian.Uint32(result)), " ")
	}
	// Output: 2 3 5 5 7 12
}
