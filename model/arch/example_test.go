package arch_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model/arch"
	"github.com/leat-dev/leat/model/gguf"
)

func ExampleBuild() {
	f, err := gguf.Parse(stories.Name, stories.GGUF) // gguf.Open opens a file
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	m, err := arch.Build(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Name, "of", m.Vocab, "tokens and", m.Context, "positions")
	for _, l := range m.Layers[:2] {
		fmt.Printf("%s: %d outputs for each row\n", l.Name(), l.Shape().Width)
	}
	// Output:
	// llama of 512 tokens and 128 positions
	// embedding: 64 outputs for each row
	// block 0: 64 outputs for each row
}
