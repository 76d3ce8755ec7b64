package text_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate/text"
)

func Example() {
	f, err := gguf.Parse(stories.Name, stories.GGUF)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := tokenizer.New(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	// What a model wrote, token by token; the text ends before "The end".
	tokens := t.Encode(tokenizer.Plain("They were happy. The end. Then"))
	w := text.NewWriter(tokenizer.Begin(t), []string{"The end"})
	for _, id := range tokens {
		shown, stopped := w.Add(id)
		fmt.Printf("%q %q\n", t.Text(id), shown)
		if stopped {
			return
		}
	}
	fmt.Printf("%q\n", w.End())
	// Output:
	// "▁They" "They"
	// "▁we" " we"
	// "re" "re"
	// "▁happy" " happy"
	// "." "."
	// "▁The" " "
	// "▁e" ""
	// "nd" ""
}
