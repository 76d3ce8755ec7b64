package sampling_test

import (
	"fmt"

	"github.com/leat-dev/leat/pipeline/generate/sampling"
)

func ExampleChooser() {
	chooser, err := sampling.NewChooser(sampling.Params{Temperature: 0.8, TopK: 2, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	logits := []float32{0.5, 3, -1, 2.5} // of a model with four tokens
	tokens := []int32{0}
	for range 8 {
		id, err := chooser.Choose(logits, tokens)
		if err != nil {
			fmt.Println(err)
			return
		}
		tokens = append(tokens, id)
	}
	fmt.Println(tokens)

	// The two largest logits give the same token.
	id, err := chooser.ChooseTop([]int32{1, 3}, []float32{3, 2.5}, tokens[:1])
	fmt.Println(id, err)
	// Output:
	// [0 1 1 3 3 3 3 3 1]
	// 1 <nil>
}

func ExampleLogProbs() {
	p := sampling.NewLogProbs([]float32{0.5, 3, -1, 2.5})
	for _, token := range p.Top(nil, 2) {
		fmt.Printf("token %d: %.3f\n", token.ID, token.LogProb)
	}
	// Output:
	// token 1: -0.535
	// token 3: -1.035
}
