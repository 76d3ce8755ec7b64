package vocabulary_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// A kind of tokenizer cuts the text between special tokens by its own rules.
func Example() {
	f, err := gguf.Parse(stories.Name, stories.GGUF)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := vocabulary.Load(f, vocabulary.Defaults{Unknown: 0, BOS: 1, EOS: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range v.Split(vocabulary.WithControl("<s>Say "), vocabulary.Plain("</s>"), vocabulary.WithControl("!</s>")) {
		if s.ID == vocabulary.None {
			fmt.Printf("text  %q\n", s.Text)
		} else {
			fmt.Printf("token %d\n", s.ID)
		}
	}
	// Output:
	// token 1
	// text  "Say </s>!"
	// token 2
}
