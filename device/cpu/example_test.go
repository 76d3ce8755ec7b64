package cpu_test

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/device/cpu"
)

// Devices are found by a list, opened by name, and hold buffers that queues
// fill and read.
func Example() {
	places, err := device.Resolve("cpu=64MiB", 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(places), places[0].Info.Kind, device.FormatSize(places[0].Budget))

	var set device.Set
	defer set.Close()
	d, _ := set.Open(places[0].Info.Name)
	buffer, _ := d.Alloc(4)
	defer buffer.Free()
	queue, _ := d.NewQueue()
	defer queue.Close()
	done, _ := queue.NewEvent()

	back := make([]byte, 4)
	queue.Begin()
	queue.Upload(buffer, 0, []byte("leat"))
	queue.Download(back, buffer, 0)
	queue.Record(done)
	queue.End()
	err = done.Wait(context.Background())
	fmt.Println(string(back), err)
	// Output:
	// 1 cpu 64.0 MiB
	// leat <nil>
}
