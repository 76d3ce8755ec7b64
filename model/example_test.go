package model_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/tokenizer"
)

func Example() {
	m, err := model.Parse(stories.Name, stories.GGUF) // model.Open opens a file
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	fmt.Println(m.Name, "of", len(m.Layers), "layers:", m.Layers[0].Name(), "to", m.Layers[len(m.Layers)-1].Name())
	fmt.Println(m.Tokenizer.Prompt(tokenizer.WithControl("Once upon a time")))
	// Output:
	// llama of 7 layers: embedding to output head
	// [1 403 407 261 378]
}
