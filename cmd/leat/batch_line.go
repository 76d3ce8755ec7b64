package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/leat-dev/leat/pipeline/generate"
)

// readLine reads what a line asks for. flags are for what it doesn't say. With
// an error, the id is the line's all the same, if it could be read.
func readLine(flags generationFlags, l inputLine) (json.RawMessage, generate.Request, error) {
	fields := lineFields{flags: flags}
	fields.flags.sampling.Seed = lineSeed(flags.sampling.Seed, l.number)
	err := fields.read(l.text)
	if !utf8.Valid(l.text) {
		err = errors.New("it is not UTF-8")
		if !utf8.Valid(fields.id) {
			fields.id = nil
		}
	}
	switch {
	case err != nil:
	case fields.prompt == nil && fields.tokens == nil:
		err = errors.New(`there is no prompt: write {"prompt":"…"}`)
	case fields.prompt != nil && fields.tokens != nil:
		err = errors.New("prompt and tokens exclude each other: give the prompt once")
	}
	if err != nil {
		return fields.id, generate.Request{}, err
	}
	r, err := fields.flags.request()
	if err == nil && fields.prompt != nil {
		r.Prompt = *fields.prompt
	}
	r.Tokens = fields.tokens
	return fields.id, r, err
}

// lineSeed is the seed of a line that has none of its own: the first number of
// a PCG generator with these two as its state. Lines with one prompt thereby
// get texts of their own, and no two seeds share any.
func lineSeed(seed uint64, line int) uint64 {
	return rand.NewPCG(seed, uint64(line)).Uint64()
}

// lineFields is what has been read of a line so far.
type lineFields struct {
	id     json.RawMessage // nil: none
	prompt *string         // nil: none
	tokens []int32         // instead of prompt; nil: none
	flags  generationFlags
}

func (f *lineFields) read(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notAnObject(err)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return notAnObject(err)
		}
		key := t.(string) // the decoder takes nothing else here
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return notAnObject(err)
		}
		if seen[key] {
			if key == "id" {
				f.id = nil // it is not known which of them is meant
			}
			return fmt.Errorf("%q stands there twice", short(key))
		}
		seen[key] = true
		if err := f.set(key, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return notAnObject(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return nil
}

func notAnObject(err error) error {
	switch {
	case err == nil:
		return errors.New("it is not a JSON object")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it ends too early")
	}
	return fmt.Errorf("it is not a JSON object: %w", err)
}

const lineKeys = "id, prompt, tokens, max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop, raw and logprobs"

// set takes one field. null is as good as no field.
func (f *lineFields) set(key string, value json.RawMessage) error {
	s := &f.flags.sampling
	if string(value) == "null" && key != "id" && knownKey(key) {
		return nil
	}
	switch key {
	case "id":
		f.id = value
		return nil
	case "prompt":
		f.prompt = new(string)
		return text(key, value, f.prompt, "a text")
	case "tokens":
		f.tokens = []int32{}
		var ids []json.RawMessage
		if err := field(key, value, &ids, "a list of token ids"); err != nil {
			return err
		}
		for _, id := range ids {
			var n int32
			if err := integer(key, id, &n, "a list of token ids"); err != nil {
				return err
			}
			f.tokens = append(f.tokens, n)
		}
		return nil
	case "max_tokens":
		n := &f.flags.maxTokens
		err := integer(key, value, n, "a whole number")
		if err == nil && *n < 1 {
			err = fmt.Errorf("max_tokens %d: it may be 1 or more", *n)
		}
		return err
	case "temperature":
		return field(key, value, &s.Temperature, "a number")
	case "top_k":
		return integer(key, value, &s.TopK, "a whole number")
	case "top_p":
		return field(key, value, &s.TopP, "a number")
	case "min_p":
		return field(key, value, &s.MinP, "a number")
	case "repeat_penalty":
		return field(key, value, &s.RepeatPenalty, "a number")
	case "seed":
		return integer(key, value, &s.Seed, "a whole number from 0 to 18446744073709551615")
	case "stop":
		return f.stop(value)
	case "raw":
		return field(key, value, &f.flags.raw, "true or false")
	case "logprobs":
		return f.flags.logProbs.set(value)
	}
	return fmt.Errorf("unknown key %q: there are %s", short(key), lineKeys)
}

// knownKey says that a line may have a key.
func knownKey(key string) bool {
	names := strings.FieldsFunc(lineKeys, func(c rune) bool { return c == ',' || c == ' ' })
	return key != "and" && slices.Contains(names, key)
}

// stop takes a text or a list of them, in place of the flags'.
func (f *lineFields) stop(value json.RawMessage) error {
	const what = "a text or a list of texts"
	texts := []json.RawMessage{value}
	if value[0] == '[' {
		if err := field("stop", value, &texts, what); err != nil {
			return err
		}
	}
	f.flags.stop = make([]string, len(texts))
	for i, one := range texts {
		if err := text("stop", one, &f.flags.stop[i], what); err != nil {
			return err
		}
		if f.flags.stop[i] == "" {
			return errors.New("stop: an empty text would stop at once: leave it out")
		}
	}
	return nil
}

// field reads a value into to, or says what it should have been.
func field(key string, value json.RawMessage, to any, what string) error {
	if err := json.Unmarshal(value, to); err != nil || bytes.Equal(value, []byte("null")) {
		return fmt.Errorf("%s %s: it may be %s", key, short(string(value)), what)
	}
	return nil
}

// integer is field for a whole number, which may be written as a fraction or with an
// exponent: 4.0 is 4.
func integer[T int | int32 | uint64](key string, value json.RawMessage, to *T, what string) error {
	const exact = 1 << 53 // below it a float64 holds every whole number
	digits := string(value)
	if whole, zeros, ok := strings.Cut(digits, "."); ok && strings.Trim(zeros, "0") == "" {
		digits = whole
	}
	if digits == "null" {
		return field(key, value, to, what)
	}
	if json.Unmarshal([]byte(digits), to) == nil {
		return nil
	}
	var x float64
	if err := json.Unmarshal(value, &x); err == nil && x == math.Trunc(x) && math.Abs(x) < exact && float64(T(x)) == x {
		*to = T(x)
		return nil
	}
	return field(key, value, to, what)
}

// text is field for a text. A half of a surrogate pair, which stands for no character,
// is refused, where package json would put another character in its place.
func text(key string, value json.RawMessage, to *string, what string) error {
	if err := field(key, value, to, what); err != nil {
		return err
	}
	if _, err := jsontext.AppendUnquote(nil, value); err != nil {
		return fmt.Errorf(`%s: it has half of a surrogate pair, as \ud83d without its other half: it is not UTF-8`, key)
	}
	return nil
}

// short is s, or where it is long, its beginning.
func short(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// task is a line on its way from the input to the output.
type task struct {
	number  int             // of its line, from 1
	id      json.RawMessage // nil: none
	request generate.Request

	text   string
	tokens []int32
	scores *scores // nil: not asked for
	scored int64   // bytes that they take at most, about
	finish generate.Finish
	err    error // its result, if it isn't nil

	line       []byte // of the output; nil: not rendered yet
	failed     bool   // it says so
	kept       bool   // an earlier run has made it
	written    bool   // and has written it to the output
	unfinished bool   // the batch ended before it did

	count  func()        // is told of every token
	size   int64         // bytes of its line
	end    int64         // bytes of the input up to its line's end
	digest uint64        // of the input's lines up to its own
	done   chan struct{} // closed when it has its result
}

// render makes the line of the output, if it isn't made yet or stands there already.
func (t *task) render() error {
	if t.line != nil || t.written {
		return nil
	}
	var b bytes.Buffer
	err := t.appendTo(&b)
	t.line, t.failed = b.Bytes(), t.err != nil
	t.scores = nil // the line has them
	return err
}

// appendTo writes the line of the output: the id first, byte for byte as it was
// in the input.
func (t *task) appendTo(b *bytes.Buffer) error {
	b.WriteString(`{"id":`)
	if t.id == nil {
		b.WriteString("null")
	}
	b.Write(t.id)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	start := b.Len()
	var err error
	if t.err != nil {
		err = e.Encode(errorDocument{"", generate.Failed, fmt.Sprintf("line %d: %v", t.number, withFlag(t.err))})
	} else {
		err = e.Encode(lineDocument{t.text, append([]int32{}, t.tokens...), len(t.request.Tokens), t.finish, t.scores.document()})
	}
	if err == nil {
		b.Bytes()[start] = ',' // where the object began
	}
	return err
}

// lineDocument is what leat batch writes for a line, after its id.
type lineDocument struct {
	Text         string          `json:"text"`
	Tokens       []int32         `json:"tokens"`
	PromptTokens int             `json:"prompt_tokens"`
	Finish       generate.Finish `json:"finish"`
	LogProbs     *scoresDocument `json:"logprobs,omitempty"`
}

// errorDocument is what leat batch writes for a line that failed, after its id.
type errorDocument struct {
	Text   string          `json:"text"`
	Finish generate.Finish `json:"finish"`
	Error  string          `json:"error"`
}
