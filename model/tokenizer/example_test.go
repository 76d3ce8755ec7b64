package tokenizer_test

import (
	"fmt"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
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
	ids := t.Encode("The cat ☂") // the umbrella has no token: its bytes have
	for _, id := range ids {
		fmt.Printf("%q\n", t.Text(id))
	}
	fmt.Printf("%q\n", t.Decode(ids))
	// Output:
	// "<s>"
	// "▁The"
	// "▁c"
	// "at"
	// "▁"
	// "<0xE2>"
	// "<0x98>"
	// "<0x82>"
	// "The cat ☂"
}
