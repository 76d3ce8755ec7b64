package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/leat-dev/leat/model/gguf"
)

// The keys of a tokenizer, from the GGUF specification.
const (
	modelKey       = "tokenizer.ggml.model"
	tokensKey      = "tokenizer.ggml.tokens"
	scoresKey      = "tokenizer.ggml.scores"
	typesKey       = "tokenizer.ggml.token_type"
	bosKey         = "tokenizer.ggml.bos_token_id"
	eosKey         = "tokenizer.ggml.eos_token_id"
	unkKey         = "tokenizer.ggml.unknown_token_id"
	eotKey         = "tokenizer.ggml.eot_token_id"
	eomKey         = "tokenizer.ggml.eom_token_id"
	addBOSKey      = "tokenizer.ggml.add_bos_token"
	addEOSKey      = "tokenizer.ggml.add_eos_token"
	spacePrefixKey = "tokenizer.ggml.add_space_prefix"
)

// endTexts are the tokens with which known models end a turn or a text. Files
// often fail to name them by a key, and some give them the wrong type.
var endTexts = map[string]bool{
	"<|eot_id|>": true, "<|eom_id|>": true, "<|im_end|>": true, "<|end|>": true,
	"<|endoftext|>": true, "<|end_of_text|>": true, "<end_of_turn>": true, "<EOT>": true,
}

// New reads the tokenizer of a file. It keeps nothing of the file, which may be
// closed. Errors name the file and the key or token.
func New(f *gguf.File) (*Tokenizer, error) {
	t, err := load(f)
	if err != nil {
		return nil, err
	}
	t.mergers.New = func() any { return new(merger) }
	return t, nil
}

func load(f *gguf.File) (*Tokenizer, error) {
	model, ok, err := f.String(modelKey)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%s: key %q is missing: the file has no tokenizer", f.Name(), modelKey)
	case model != "llama":
		return nil, fmt.Errorf("%s: tokenizer model %q is not supported yet; llama is", f.Name(), model)
	}
	t := &Tokenizer{addBOS: true, spacePrefix: true}
	for _, step := range []func(*gguf.File) error{t.loadTokens, t.loadIDs, t.loadRules} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	if err := t.index(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return t, nil
}

// mostTokens is several times what the largest vocabularies have.
const mostTokens = 1 << 20

// loadTokens reads the texts, scores and types.
func (t *Tokenizer) loadTokens(f *gguf.File) error {
	// Counts first: a file of a few megabytes can claim millions of tokens, and
	// each takes many times its bytes once it is read.
	for _, key := range []string{tokensKey, scoresKey, typesKey} {
		if v, ok := f.Value(key); ok && v.Len() > mostTokens {
			return fmt.Errorf("%s: key %q has %d elements: a vocabulary may have up to %d", f.Name(), key, v.Len(), mostTokens)
		}
	}
	texts, ok, err := f.Strings(tokensKey)
	if err != nil {
		return err
	}
	if !ok || len(texts) == 0 {
		return fmt.Errorf("%s: key %q is missing or empty", f.Name(), tokensKey)
	}
	scores, ok, err := f.Floats(scoresKey)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: key %q is missing: pieces are merged by their scores", f.Name(), scoresKey)
	}
	types, typed, err := f.Ints(typesKey)
	if err != nil {
		return err
	}
	if len(scores) != len(texts) || typed && len(types) != len(texts) {
		return fmt.Errorf("%s: %d tokens, %d scores and %d token types: their numbers must be equal",
			f.Name(), len(texts), len(scores), len(types))
	}
	t.tokens = make([]token, len(texts))
	for i, text := range texts {
		k := guessKind(text)
		if typed {
			k = kind(types[i])
		}
		if endTexts[text] {
			k = control
		}
		t.tokens[i] = token{text: text, score: scores[i], kind: k}
		if err := t.tokens[i].check(); err != nil {
			return fmt.Errorf("%s: token %d, %s: %w", f.Name(), i, quote(text), err)
		}
	}
	return nil
}

// guessKind is for files that have no types.
func guessKind(text string) kind {
	switch _, isByte := parseByte(text); {
	case isByte:
		return byteToken
	case text == "<unk>":
		return unknown
	case text == "<s>" || text == "</s>":
		return control
	}
	return normal
}

func (k *token) check() error {
	if s := float64(k.score); math.IsNaN(s) || math.IsInf(s, 0) {
		return fmt.Errorf("its score is %v", s)
	}
	if k.kind < normal || k.kind > byteToken {
		return fmt.Errorf("its type %d is not known", k.kind)
	}
	if k.kind == byteToken {
		var ok bool
		if k.value, ok = parseByte(k.text); !ok {
			return fmt.Errorf("it is a byte by its type, and not written like <0x41>")
		}
	}
	return nil
}

// parseByte reads a byte written like <0x41>.
func parseByte(text string) (b byte, ok bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(n), err == nil
}

// loadIDs finds the tokens that have a role.
func (t *Tokenizer) loadIDs(f *gguf.File) (err error) {
	// The usual ids of a SentencePiece vocabulary count where a file names none
	// and the token there is of the right type.
	if t.unk, err = t.id(f, unkKey, 0, unknown); err != nil {
		return err
	}
	if t.bos, err = t.id(f, bosKey, 1, control); err != nil {
		return err
	}
	if t.eos, err = t.id(f, eosKey, 2, control); err != nil {
		return err
	}
	for _, key := range []string{eotKey, eomKey} {
		id, err := t.id(f, key, none, control)
		if err != nil {
			return err
		}
		t.ends = append(t.ends, id)
	}
	t.ends = append(t.ends, t.eos)
	for i, k := range t.tokens {
		if endTexts[k.text] {
			t.ends = append(t.ends, int32(i))
		}
	}
	t.ends = slices.DeleteFunc(t.ends, func(id int32) bool { return id == none })
	return nil
}

func (t *Tokenizer) id(f *gguf.File, key string, usual int32, k kind) (int32, error) {
	id, ok, err := f.Uint(key)
	switch {
	case err != nil:
		return none, err
	case !ok && t.has(usual) && t.tokens[usual].kind == k:
		return usual, nil
	case !ok || id == math.MaxUint32: // files write -1 so, for none
		return none, nil
	case id >= uint64(len(t.tokens)):
		return none, fmt.Errorf("%s: key %q is %d, and there are %d tokens", f.Name(), key, id, len(t.tokens))
	}
	return int32(id), nil
}

// loadRules reads what is added to a text.
func (t *Tokenizer) loadRules(f *gguf.File) error {
	for _, rule := range []struct {
		key  string
		into *bool
		id   int32
	}{{addBOSKey, &t.addBOS, t.bos}, {addEOSKey, &t.addEOS, t.eos}, {spacePrefixKey, &t.spacePrefix, 0}} {
		said, ok, err := f.Bool(rule.key)
		if err != nil {
			return err
		}
		if ok {
			*rule.into = said
		}
		if ok && said && rule.id == none {
			return fmt.Errorf("%s: key %q is true, and there is no such token", f.Name(), rule.key)
		}
	}
	return nil
}

// index builds what encoding looks texts up in.
func (t *Tokenizer) index() error {
	t.pieces = make(map[string]int32, len(t.tokens))
	for b := range t.bytes {
		t.bytes[b] = none
	}
	for i := range t.tokens {
		k, id := &t.tokens[i], int32(i)
		switch k.kind {
		case normal, unused:
			t.pieces[k.text] = id // of two alike, the later one
			t.longest = max(t.longest, len(k.text))
		case byteToken:
			if first := t.bytes[k.value]; first != none {
				return fmt.Errorf("tokens %d and %d are both byte 0x%02X", first, id, k.value)
			}
			t.bytes[k.value] = id
		default:
			if k.text != "" {
				t.special = append(t.special, id)
			}
		}
	}
	slices.SortStableFunc(t.special, func(a, b int32) int {
		return cmp.Compare(len(t.tokens[b].text), len(t.tokens[a].text))
	})
	if b := slices.Index(t.bytes[:], none); b >= 0 && t.unk == none {
		return fmt.Errorf("byte 0x%02X has no token, and there is no unknown token to stand for it", b)
	}
	return nil
}

// quote makes a token fit to stand in a one-line message.
func quote(text string) string {
	if len(text) > 80 {
		return strconv.Quote(text[:80]) + "…"
	}
	return strconv.Quote(text)
}
