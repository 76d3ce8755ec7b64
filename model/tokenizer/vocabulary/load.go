package vocabulary

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/leat-dev/leat/model/gguf"
)

// The keys of a vocabulary, from the GGUF specification.
const (
	tokensKey = "tokenizer.ggml.tokens"
	typesKey  = "tokenizer.ggml.token_type"
	bosKey    = "tokenizer.ggml.bos_token_id"
	eosKey    = "tokenizer.ggml.eos_token_id"
	unkKey    = "tokenizer.ggml.unknown_token_id"
	eotKey    = "tokenizer.ggml.eot_token_id"
	eomKey    = "tokenizer.ggml.eom_token_id"
	addBOSKey = "tokenizer.ggml.add_bos_token"
)

// endTexts are the tokens with which known models end a turn or a text. Many files have no key
// for them, and some give them a wrong type.
var endTexts = map[string]bool{
	"<|eot_id|>": true, "<|eom_id|>": true, "<|im_end|>": true, "<|end|>": true,
	"<|endoftext|>": true, "<|end_of_text|>": true, "<end_of_turn>": true, "<EOT>": true,
}

// Defaults are the properties of a kind of tokenizer, for files that lack the key.
type Defaults struct {
	// Kind returns the kind of a token, for a file that has no token types. If Kind is nil,
	// all tokens are Normal.
	Kind func(text string) Kind

	// Unknown, BOS and EOS are the ids of these tokens, or None. Such an id is used only if
	// the token with that id is of kind Unknown for Unknown, or Control for BOS and EOS.
	Unknown, BOS, EOS int32

	// AddBOS is whether prompts begin with BOS.
	AddBOS bool
}

// Load returns the vocabulary of a file. It copies what it needs, so the file may be closed
// afterwards. Errors name the file and the key or token.
func Load(f *gguf.File, d Defaults) (*Vocabulary, error) {
	v := &Vocabulary{addBOS: d.AddBOS}
	for _, step := range []func(*gguf.File, Defaults) error{v.loadTokens, v.loadRoles, v.loadRules} {
		if err := step(f, d); err != nil {
			return nil, err
		}
	}
	v.specials = newSpecials(v.tokens)
	return v, nil
}

// Limits of a vocabulary, several times those of the largest in use. A token's length must be
// limited because its text is added to the output each time that a model generates it.
const (
	maxTokens = 1 << 20
	maxToken  = 4 << 10 // bytes of a token's text
)

// loadTokens reads the tokens' texts and types.
func (v *Vocabulary) loadTokens(f *gguf.File, d Defaults) error {
	// Check the counts first: a file of a few megabytes can have millions of tokens, and each
	// needs several times its size in the file when it is decoded.
	for _, key := range []string{tokensKey, typesKey} {
		if array, ok := f.Value(key); ok && array.Len() > maxTokens {
			return fmt.Errorf("%s: key %q has %d elements: a vocabulary may have up to %d", f.Name(), key, array.Len(), maxTokens)
		}
	}
	texts, ok, err := f.Strings(tokensKey)
	if err != nil {
		return err
	}
	if !ok || len(texts) == 0 {
		return fmt.Errorf("%s: key %q is missing or empty", f.Name(), tokensKey)
	}
	types, typed, err := f.Ints(typesKey)
	if err != nil {
		return err
	}
	if typed && len(types) != len(texts) {
		return fmt.Errorf("%s: %d tokens and %d token types: their numbers must be equal", f.Name(), len(texts), len(types))
	}
	v.tokens = make([]Token, len(texts))
	for i, text := range texts {
		if len(text) > maxToken {
			return fmt.Errorf("%s: token %d, %s, has %d bytes: a token may have up to %d", f.Name(), i, gguf.Quote(text), len(text), maxToken)
		}
		kind := Normal
		switch {
		case endTexts[text]:
			kind = Control
		case typed:
			kind = Kind(types[i])
		case d.Kind != nil:
			kind = d.Kind(text)
		}
		v.tokens[i] = Token{Text: text, Kind: kind}
		if err := v.tokens[i].complete(); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), v.Errorf(int32(i), "%w", err))
		}
	}
	return nil
}

// complete checks a token's kind and, for a byte token, sets its Byte.
func (t *Token) complete() error {
	if t.Kind < Normal || t.Kind > Byte {
		return fmt.Errorf("its type %d is not known", t.Kind)
	}
	if t.Kind == Byte {
		var ok bool
		if t.Byte, ok = ParseByte(t.Text); !ok {
			return fmt.Errorf("its type is that of a byte token, but it is not written like <0x41>")
		}
	}
	return nil
}

// ParseByte parses the text of a byte token, such as "<0x41>". ok is false if text is none.
func ParseByte(text string) (b byte, ok bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(n), err == nil
}

// Bytes returns the token of each byte, or None for a byte that has none. It is an error if two
// tokens are for the same byte.
func (v *Vocabulary) Bytes() (ids [256]int32, err error) {
	for b := range ids {
		ids[b] = None
	}
	for i, t := range v.tokens {
		if t.Kind != Byte {
			continue
		}
		if first := ids[t.Byte]; first != None {
			return ids, fmt.Errorf("tokens %d and %d are both byte 0x%02X", first, i, t.Byte)
		}
		ids[t.Byte] = int32(i)
	}
	return ids, nil
}

// Errorf returns an error, formatted as by fmt.Errorf, that names a token of this vocabulary.
// The token's text is quoted and shortened.
func (v *Vocabulary) Errorf(id int32, format string, args ...any) error {
	return fmt.Errorf("token %d, %s: %w", id, gguf.Quote(v.Text(id)), fmt.Errorf(format, args...))
}

// loadRoles finds the tokens that have a role: unknown, BOS, EOS, and others that end a text.
func (v *Vocabulary) loadRoles(f *gguf.File, d Defaults) (err error) {
	if v.unknown, err = v.role(f, unkKey, d.Unknown, Unknown); err != nil {
		return err
	}
	if v.bos, err = v.role(f, bosKey, d.BOS, Control); err != nil {
		return err
	}
	if v.eos, err = v.role(f, eosKey, d.EOS, Control); err != nil {
		return err
	}
	v.ends = []int32{v.eos}
	for _, key := range []string{eotKey, eomKey} {
		id, err := v.role(f, key, None, Control)
		if err != nil {
			return err
		}
		v.ends = append(v.ends, id)
	}
	for i, t := range v.tokens {
		if endTexts[t.Text] {
			v.ends = append(v.ends, int32(i))
		}
	}
	slices.Sort(v.ends)
	v.ends = slices.DeleteFunc(slices.Compact(v.ends), func(id int32) bool { return id == None })
	return nil
}

// role returns the token that a key names. If the file lacks the key, it is the usual token if
// that is of the given kind, and None otherwise.
func (v *Vocabulary) role(f *gguf.File, key string, usual int32, kind Kind) (int32, error) {
	id, ok, err := f.Int(key)
	switch {
	case err != nil:
		return None, err
	case !ok && v.has(usual) && v.tokens[usual].Kind == kind:
		return usual, nil
	case !ok || id == -1 || id == math.MaxUint32: // files use -1, signed or unsigned, for no token
		return None, nil
	case id < 0 || id >= int64(len(v.tokens)):
		return None, fmt.Errorf("%s: key %q is %d, and there are %d tokens", f.Name(), key, id, len(v.tokens))
	}
	return int32(id), nil
}

// loadRules reads whether prompts begin with BOS. The key for adding EOS after a text is ignored,
// because it applies to complete texts, and a prompt is to be continued.
func (v *Vocabulary) loadRules(f *gguf.File, _ Defaults) error {
	add, ok, err := f.Bool(addBOSKey)
	switch {
	case err != nil:
		return err
	case add && v.bos == None:
		return fmt.Errorf("%s: key %q is true, but the vocabulary has no such token", f.Name(), addBOSKey)
	case ok:
		v.addBOS = add
	}
	return nil
}
