package gguf_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model/gguf"
)

func Example() {
	f, err := gguf.Parse(stories.Name, stories.GGUF) // gguf.Open opens a file
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	blocks, _, err := f.Uint("llama.block_count")
	fmt.Println(blocks, "blocks", err)
	t, _ := f.Tensor("output_norm.weight")
	fmt.Println(t.Name, t.Type, t.Dims, t.Size, "bytes")
	_, _, err = f.String("llama.block_count")
	fmt.Println(err)
	// Output:
	// 5 blocks <nil>
	// output_norm.weight F32 [64] 256 bytes
	// stories260K.gguf: key "llama.block_count" is of type uint32, not string
}
