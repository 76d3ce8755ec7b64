package sentencepiece_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/sentencepiece"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

func Example() {
	f, err := gguf.Parse(stories.Name, stories.GGUF)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := sentencepiece.New(f) // tokenizer.New chooses by the file
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range t.Encode(vocabulary.Plain("a cat")) {
		fmt.Printf("%q is %q\n", t.Text(id), t.AppendPiece(nil, id))
	}
	// Output:
	// "▁a" is " a"
	// "▁c" is " c"
	// "at" is "at"
}
