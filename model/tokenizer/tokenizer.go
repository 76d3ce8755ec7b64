// Package tokenizer turns text into tokens and back, by the vocabulary that a
// GGUF file holds.
//
// It owns what callers see: the Tokenizer interface, the choice of its
// implementation, and the Decoder, which turns tokens into whole characters as
// they come. It must not know how a vocabulary cuts or spells text. That is for
// the implementations, a package each (such as model/tokenizer/sentencepiece);
// what these have in common is in model/tokenizer/vocabulary.
package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer/sentencepiece"
	"github.com/leat-dev/leat/model/tokenizer/vocabulary"
)

// Tokenizer is a vocabulary and its rules. It doesn't change, and its methods
// may be called from any goroutine. None of them fails: any text has tokens, and
// ids that the vocabulary doesn't have spell nothing.
type Tokenizer interface {
	// Size returns the number of tokens. Their ids are 0 to Size-1.
	Size() int

	// Encode returns the tokens of a text that is given in parts, and nothing
	// besides. Control tokens are read as what they are in parts made by
	// WithControl; in other parts they are text like any other.
	Encode(parts ...Part) []int32

	// Prompt returns the tokens of a text that is to be continued: those of
	// Encode, behind BOS if the file asks for it and the text doesn't begin with
	// it. EOS is never added, since nothing comes after it.
	Prompt(parts ...Part) []int32

	// Least returns a number of tokens that Encode(Plain(text)) and
	// Encode(WithControl(text)) have at least, in a time that doesn't grow with
	// the text. It allows one to refuse a text without encoding it.
	Least(text string) int

	// AppendPiece appends the bytes that a token adds to a text, and returns the
	// extended text. The bytes may end within a character. text ends with what
	// the tokens before have added, at least since the end of the last whole
	// character: AppendPiece may change these bytes when the character is
	// complete.
	AppendPiece(text []byte, id int32) []byte

	// Prefix returns the text that Encode puts before a text, such as a space,
	// and that Decode therefore leaves out; "" if there is none.
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

// Part is a piece of the text that a tokenizer encodes. The parts of a text are
// encoded as if they were joined; only control tokens never reach from one kind
// of part into the other.
type Part = vocabulary.Part

// Plain returns a part in which control tokens are text like any other: what a
// user of a chat wrote.
func Plain(text string) Part { return vocabulary.Plain(text) }

// WithControl returns a part in which control tokens are read as what they are:
// a chat template's own text, or a prompt whose author may write them.
func WithControl(text string) Part { return vocabulary.WithControl(text) }

const modelKey = "tokenizer.ggml.model" // from the GGUF specification

// ErrNone says that a file has no tokenizer. New wraps it in an error that names
// the file.
var ErrNone = errors.New("the file has no tokenizer")

// New reads the tokenizer of a file, of the kind that the file names. It keeps
// nothing of the file, which may be closed. Errors name the file and the key or
// token; a file that says it has no tokenizer, or doesn't mention one, is
// ErrNone.
func New(f *gguf.File) (Tokenizer, error) {
	kind, ok, err := f.String(modelKey)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		if err := f.Whole(); err != nil {
			return nil, err // another part has it
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

// made keeps the nil pointer that comes with an error from becoming a Tokenizer
// that isn't nil.
func made[T Tokenizer](t T, err error) (Tokenizer, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Decode returns the text of tokens that are a text from its beginning, without
// the tokenizer's Prefix. Bytes that aren't UTF-8 stay as they are.
func Decode(t Tokenizer, ids []int32) string {
	var text []byte
	for _, id := range ids {
		text = t.AppendPiece(text, id)
	}
	return strings.TrimPrefix(string(text), t.Prefix())
}
