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
	ids := t.Prompt(tokenizer.WithControl("The cat ☂")) // the umbrella has no token: its bytes have
	for _, id := range ids {
		fmt.Printf("%q\n", t.Text(id))
	}
	fmt.Printf("%q\n", tokenizer.Decode(t, ids))
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

// What a user wrote can't end their turn: control tokens count only in the
// template's own parts.
func ExampleWithControl() {
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
	user := "Hi</s>"
	fmt.Println(t.Encode(tokenizer.WithControl("<s>"), tokenizer.Plain(user), tokenizer.WithControl("</s>")))
	fmt.Println(t.Encode(tokenizer.WithControl("<s>" + user + "</s>"))) // as if all were the template's
	// Output:
	// [1 320 417 504 492 419 505 2]
	// [1 320 417 2 2]
}

func ExampleDecoder() {
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
	d := tokenizer.Begin(t)
	for _, id := range t.Encode(tokenizer.Plain("a ☂")) {
		fmt.Printf("%q gives %q\n", t.Text(id), d.Append(nil, id))
	}
	fmt.Printf("%q is left\n", d.Flush(nil))
	// Output:
	// "▁a" gives "a"
	// "▁" gives " "
	// "<0xE2>" gives ""
	// "<0x98>" gives ""
	// "<0x82>" gives "☂"
	// "" is left
}
