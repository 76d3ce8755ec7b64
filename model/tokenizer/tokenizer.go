// Package tokenizer converts text to tokens and back, with the vocabulary in a GGUF file.
//
// It owns the Tokenizer interface, the choice of its implementation, and the Decoder, which
// converts a stream of tokens to complete characters. It must not know how a vocabulary splits
// or spells text. That is for the implementations, each of which is a package, such as
// model/tokenizer/sentencepiece; what these have in common is in model/tokenizer/vocabulary.
package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/sentencepiece"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// Tokenizer is a vocabulary and its rules. It is immutable, and its methods may be called from
// any goroutine. No method fails: every text has tokens, and an id that the vocabulary doesn't
// have adds no text.
type Tokenizer interface {
	// Size returns the number of tokens. Their ids are 0 to Size-1.
	Size() int

	// Encode returns the tokens of a text, which is given in parts, without BOS and EOS. In
	// parts made by WithControl, the text of a control token is encoded as that token; in
	// other parts it is encoded like any text.
	Encode(parts ...Part) []int32

	// Prompt returns the tokens of a text that a model is to continue: those of Encode,
	// preceded by BOS if the file asks for it and the text doesn't begin with it. EOS is not
	// added, because the text is not complete.
	Prompt(parts ...Part) []int32

	// Least returns a lower bound of the number of tokens of Encode(Plain(text)) and of
	// Encode(WithControl(text)), in constant time. With it, a text that is too long can be
	// rejected without encoding it.
	Least(text string) int

	// AppendPiece appends the bytes that a token adds to a text, and returns the extended
	// text. These bytes may end in the middle of a character. text must end with the bytes
	// that the tokens before have added, at least from the end of the last complete
	// character on; AppendPiece may change these bytes when the character becomes complete.
	AppendPiece(text []byte, id int32) []byte

	// Prefix returns the text, such as a space, that Encode inserts before a text and that
	// Decode omits. It returns "" if there is none.
	Prefix() string

	// Text returns a token as the vocabulary spells it, such as "▁the", "<s>"
	// or "<0x0A>". It returns "" if the vocabulary has no such id.
	Text(id int32) string

	// BOS returns the token that begins a text. ok is false if there is none.
	BOS() (id int32, ok bool)

	// EOS returns the token that ends a text. ok is false if there is none.
	EOS() (id int32, ok bool)

	// IsEnd reports whether a model that makes this token has finished. There
	// may be several such tokens: EOS, and those that end a turn or a message.
	IsEnd(id int32) bool
}

// Part is a part of a text to be encoded. The parts of a text are encoded as if they were
// joined, except that a control token never extends from one kind of part into the other.
type Part = vocabulary.Part

// Plain returns a part in which the text of control tokens has no special meaning, such as what
// a user of a chat wrote.
func Plain(text string) Part { return vocabulary.Plain(text) }

// WithControl returns a part in which the text of a control token is encoded as that token,
// such as the text of a chat template, or a prompt whose author may use control tokens.
func WithControl(text string) Part { return vocabulary.WithControl(text) }

const modelKey = "tokenizer.ggml.model" // from the GGUF specification

// ErrNone means that a file has no tokenizer. New wraps it in an error that names the file.
var ErrNone = errors.New("the file has no tokenizer")

// New returns a file's tokenizer. It copies what it needs, so the file may be closed
// afterwards. Errors name the file and the key or token. If the file has no tokenizer, the
// error wraps ErrNone.
func New(f *gguf.File) (Tokenizer, error) {
	kind, ok, err := f.String(modelKey)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		if err := f.Whole(); err != nil {
			return nil, err // the tokenizer is in another part of the split model
		}
		return nil, fmt.Errorf("%s: key %q is missing: %w", f.Name(), modelKey, ErrNone)
	}
	switch kind {
	case "llama":
		return made(sentencepiece.New(f))
	case "none":
		return nil, fmt.Errorf("%s: key %q is %q: %w", f.Name(), modelKey, kind, ErrNone)
	}
	return nil, fmt.Errorf("%s: tokenizer model %s is not supported yet; llama is", f.Name(), gguf.Quote(kind))
}

// made converts a constructor's results. It avoids a Tokenizer that is not nil but contains a
// nil pointer if there is an error.
func made[T Tokenizer](t T, err error) (Tokenizer, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Decode returns the text of tokens, without the tokenizer's Prefix at its beginning. It
// doesn't change bytes that are not valid UTF-8.
func Decode(t Tokenizer, ids []int32) string {
	var text []byte
	for _, id := range ids {
		text = t.AppendPiece(text, id)
	}
	return strings.TrimPrefix(string(text), t.Prefix())
}
