// Shape makes a model answer in JSON of a given shape, with a custom sampler that chooses only
// tokens after which the text can still be completed to that shape.
//
//	go run ./examples/shape model.gguf "Lily had a dog. It was called"
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: shape MODEL.gguf PROMPT")
	}
	text, err := run(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

func run(ctx context.Context, path, prompt string) (string, error) {
	e, err := generate.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer e.Close()
	end, ok := e.Tokenizer().EOS()
	if !ok {
		return "", errors.New("the model has no token that ends a text")
	}
	result, err := e.Generate(ctx, generate.Request{
		Prompt:  prompt,
		Sampler: &shaper{tokens: e.Tokenizer(), end: end, shape: pet},
	})
	return result.Text, err
}

// pet is {"name":"…","likes":"…"} with words of lower-case letters.
var pet = shape{literal(`{"name":"`), word(12), literal(`","likes":"`), word(12), literal(`"}`)}

// shaper is a sampler that chooses the most likely of the tokens after which the text can still be
// completed to the shape. Its state is the text so far. The engine calls it once for each token,
// even if it computes a part of the request again.
type shaper struct {
	tokens tokenizer.Tokenizer
	end    int32
	shape  shape
	text   string
}

// Sample implements generate.Sampler.
func (s *shaper) Sample(logits []float32, _ []int32) (int32, error) {
	if _, whole := s.shape.match(s.text); whole {
		return s.end, nil
	}
	best, piece := int32(-1), ""
	for id, l := range logits {
		if best >= 0 && l <= logits[best] {
			continue
		}
		p := string(s.tokens.AppendPiece(nil, int32(id)))
		if ok, _ := s.shape.match(s.text + p); ok && p != "" {
			best, piece = int32(id), p
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("no token goes on from %q", s.text)
	}
	s.text += piece
	return best, nil
}

// shape is a sequence of parts.
type shape []part

// part matches the beginning of a text, and returns the rest of the text. ok is false if the text
// can't begin with this part, and more is true if the text ends before the part is complete.
type part func(text string) (rest string, ok, more bool)

// match reports whether text is the beginning of a text with this shape, and whether it is a whole
// one.
func (s shape) match(text string) (begins, whole bool) {
	for _, p := range s {
		rest, ok, more := p(text)
		if !ok || more {
			return ok, false
		}
		text = rest
	}
	return text == "", text == ""
}

// literal matches a fixed text.
func literal(want string) part {
	return func(text string) (string, bool, bool) {
		if rest, ok := strings.CutPrefix(text, want); ok {
			return rest, true, false
		}
		return "", strings.HasPrefix(want, text), true
	}
}

// word matches one to most lower-case letters.
func word(most int) part {
	return func(text string) (string, bool, bool) {
		n := 0
		for n < len(text) && n < most && text[n] >= 'a' && text[n] <= 'z' {
			n++
		}
		return text[n:], n > 0 || text == "", text == ""
	}
}
