package backends_test

import (
	"fmt"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/kernels/cpu" // package pipeline imports it by itself
)

// A program imports the package for its effect, and then has every GPU that is there.
func Example() {
	places, err := device.Resolve("auto", 0) // the GPUs, if any, then the CPU
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(places[len(places)-1].Info.Kind)
	// Output: cpu
}
