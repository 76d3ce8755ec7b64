package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/generate/sampling"
)

// lineDefaults are the flags that the lines of these tests don't override.
func lineDefaults() generationFlags {
	return generationFlags{maxTokens: 9, sampling: generate.Sampling{Temperature: 0.5, TopK: 3, TopP: 0.9, MinP: 0.1, RepeatPenalty: 1.5, Seed: 77}, stop: []string{"x"}}
}

func TestReadLine(t *testing.T) {
	read := func(text string) generate.Request {
		t.Helper()
		_, r, err := readLine(lineDefaults(), inputLine{number: 4, text: []byte(text)})
		require.NoError(t, err)
		return r
	}
	defaults := lineDefaults()
	want := generate.Request{Prompt: "é\n\"", MaxTokens: 9, Stop: []string{"x"}, Sampling: defaults.sampling}
	want.Seed = lineSeed(77, 4)
	assert.Equal(t, want, read(`{"prompt":"\u00e9\n\""}`))

	assert.Equal(t, generate.Request{
		MaxTokens: 2, Stop: []string{"a", "b"},
		Sampling: generate.Sampling{Temperature: 0, TopK: 0, TopP: 1, MinP: 0, RepeatPenalty: 1, Seed: 1<<64 - 1},
	}, read(`{ "prompt" : "" , "max_tokens":2,"temperature":0,"top_k":0,"top_p":1e0,"min_p":0.0,"repeat_penalty":1,`+
		`"seed":18446744073709551615,"stop":["a","b"],"raw":false,"id":null}`))
	assert.Equal(t, []string{"end"}, read(`{"prompt":"","stop":"end"}`).Stop)
	assert.Empty(t, read(`{"prompt":"","stop":[]}`).Stop)

	// null is not given, a number is what it is however it is written, and a zero that
	// was written is one.
	assert.Equal(t, want, read(`{"prompt":"\u00e9\n\"","tokens":null,"max_tokens":null,"temperature":null,"top_k":null,"top_p":null,"min_p":null,`+
		`"repeat_penalty":null,"seed":null,"stop":null,"raw":null,"id":null}`))
	same := read(`{"tokens":[1,4.0e0],"max_tokens":4.0,"top_k":4e1,"seed":18446744073709551615.0,"top_p":0}`)
	assert.Equal(t, []int32{1, 4}, same.Tokens)
	assert.Equal(t, 4, same.MaxTokens)
	assert.Equal(t, 40, same.TopK)
	assert.Equal(t, uint64(1<<64-1), same.Seed)
	assert.Equal(t, sampling.TopPZero, same.TopP)
	assert.Equal(t, "\U0001F600", read(`{"prompt":"\ud83d\ude00"}`).Prompt)
	assert.Equal(t, []int32{}, read(`{"tokens":[]}`).Tokens)

	assert.NotEqual(t, lineSeed(1, 2), lineSeed(2, 1))
	assert.Equal(t, uint64(0xff4ae39f6bb44fb8), lineSeed(1, 1), "an output can be made again by a later version")
}

// An id of any type comes out as it went in, of lines that fail too.
func TestBatchIDs(t *testing.T) {
	for _, id := range []string{
		`1`, `-0`, `1e400`, `12345678901234567890`, `0.10`, `1.0E+2`, `true`, `false`, `null`, `""`, `"a"`,
		`"<&>  é\u00e9\ud83d\ude00\"\\\/"`, `[]`, `{}`, `[1, "a" ,{"b":[null]}]`, `{"a" : 1,"a":2}`, `"\ud800"`,
	} {
		for text, failing := range map[string]bool{
			`{"id":` + id + `,"prompt":"a"}`:              false,
			`{"prompt":"a","id": ` + id + ` }`:            false,
			`{"id":` + id + `}`:                           true,
			`{"id":` + id + `,"promt":"a"}`:               true,
			`{"id":` + id + `,"prompt":"a`:                true,
			`{"id":` + id + `,"prompt":"` + "\xff" + `"}`: true,
		} {
			k := &task{number: 3, finish: generate.Length, tokens: []int32{5}}
			k.id, k.request, k.err = readLine(lineDefaults(), inputLine{text: []byte(text)})
			assert.Equal(t, failing, k.err != nil, text)
			var b bytes.Buffer
			require.NoError(t, k.appendTo(&b))
			if failing {
				assert.True(t, strings.HasPrefix(b.String(), `{"id":`+id+`,"text":"","finish":"error","error":"line 3: `), b.String())
			} else {
				assert.Equal(t, `{"id":`+id+`,"text":"","tokens":[5],"prompt_tokens":0,"finish":"length"}`+"\n", b.String())
			}
			assert.True(t, json.Valid(b.Bytes()))
		}
	}
}

func TestWrongLines(t *testing.T) {
	for text, what := range map[string]string{
		`x`:                                     "not a JSON object: invalid character 'x'",
		`[1]`:                                   "not a JSON object",
		`"prompt"`:                              "not a JSON object",
		`12`:                                    "not a JSON object",
		`null`:                                  "not a JSON object",
		`{`:                                     "ends too early",
		`{"id"`:                                 "ends too early",
		`{"id":`:                                "ends too early",
		`{"id":1`:                               "ends too early",
		`{"prompt":"a",}`:                       "invalid character '}'",
		`{"prompt":"a" "id":1}`:                 "invalid character '\"'",
		`{,"prompt":"a"}`:                       "invalid character ','",
		`{"prompt" "a"}`:                        "expected colon",
		`{prompt:"a"}`:                          "invalid character 'p'",
		`{"id":01,"prompt":"a"}`:                "invalid character '1'",
		`{"id":NaN,"prompt":"a"}`:               "invalid character 'N'",
		`{"prompt":"a"}]`:                       "something follows",
		`{"prompt":"a"}{"prompt":"a"}`:          "something follows",
		`{"prompt":"a"} // b`:                   "something follows",
		"\uFEFF" + `{"prompt":"a"}`:             "invalid character",
		"{\"prompt\":\"a\tb\"}":                 `invalid character '\t'`,
		"{\"prompt\":\"\xe9\"}":                 "not UTF-8",
		"{\"id\":\"\xe9\",\"prompt\":0}":        "not UTF-8",
		"\xff\xfe{\x00\"\x00":                   "not UTF-8",
		`{}`:                                    "no prompt",
		`{"id":1}`:                              "no prompt",
		`{"Prompt":"a"}`:                        `unknown key "Prompt"`,
		`{"prompt":"a","temp":1}`:               `unknown key "temp": there are id, prompt, tokens, max_tokens, temperature`,
		`{"prompt":"a","\u001b[2J":1}`:          `unknown key "\x1b[2J"`,
		`{"` + strings.Repeat("é", 50) + `":1}`: "ééé…\":",
		`{"prompt":"a","prompt":"a"}`:           `"prompt" stands there twice`,
		`{"id":1,"prompt":"a","id":1}`:          `"id" stands there twice`,
		`{"seed":1,"se\u0065d":1}`:              `"seed" stands there twice`,
		`{"prompt":null}`:                       "no prompt",
		`{"prompt":"a","tokens":[1]}`:           "prompt and tokens exclude each other",
		`{"tokens":1}`:                          "tokens 1: it may be a list of token ids",
		`{"tokens":[1.5]}`:                      "tokens 1.5: it may be a list of token ids",
		`{"tokens":[null]}`:                     "tokens null: it may be a list of token ids",
		`{"tokens":[4294967296]}`:               "tokens 4294967296: it may be a list",
		`{"unknown":null}`:                      `unknown key "unknown"`,
		`{"and":null}`:                          `unknown key "and"`,
		`{"prompt":"a\ud83d"}`:                  "prompt: it has half of a surrogate pair",
		`{"prompt":"\udc00\ud83d"}`:             "prompt: it has half of a surrogate pair",
		`{"stop":["a","\ude00"]}`:               "stop: it has half of a surrogate pair",
		`{"prompt":["a"]}`:                      `prompt ["a"]: it may be a text`,
		`{"max_tokens":"9"}`:                    `max_tokens "9": it may be a whole number`,
		`{"max_tokens":1.5}`:                    "whole number",
		`{"max_tokens":0}`:                      "max_tokens 0: it may be 1 or more",
		`{"max_tokens":-1}`:                     "1 or more",
		`{"max_tokens":99999999999999999999}`:   "whole number",
		`{"temperature":"warm"}`:                `temperature "warm": it may be a number`,
		`{"temperature":1e400}`:                 "temperature 1e400: it may be a number",
		`{"prompt":"","temperature":-1}`:        "temperature of -1",
		`{"top_k":1.5}`:                         "top_k 1.5: it may be a whole number",
		`{"prompt":"","top_k":-1}`:              "top-k of -1",
		`{"top_p":true}`:                        "top_p true: it may be a number",
		`{"prompt":"","top_p":1.5}`:             "top-p of 1.5",
		`{"min_p":{}}`:                          "min_p {}: it may be a number",
		`{"prompt":"","min_p":2}`:               "min-p of 2",
		`{"repeat_penalty":[]}`:                 "repeat_penalty []: it may be a number",
		`{"prompt":"","repeat_penalty":-1}`:     "repeat penalty of -1",
		`{"prompt":"","repeat_penalty":0}`:      "repeat penalty of 0: it may be above 0; 1 is off",
		`{"max_tokens":4.5}`:                    "whole number",
		`{"seed":1e30}`:                         "seed 1e30: it may be a whole number",
		`{"seed":-1.0}`:                         "seed -1.0: it may be a whole number",
		`{"top_k":1e10000}`:                     "top_k 1e10000: it may be a whole number",
		`{"seed":-1}`:                           "seed -1: it may be a whole number from 0",
		`{"seed":18446744073709551616}`:         "seed 18446744073709551616: it may be a whole number",
		`{"stop":1}`:                            "stop 1: it may be a text or a list of texts",
		`{"stop":["a",null]}`:                   "stop null: it may be a text or a list",
		`{"stop":["a",["b"]]}`:                  `stop ["b"]: it may be`,
		`{"stop":""}`:                           "an empty text would stop at once",
		`{"stop":["a",""]}`:                     "an empty text would stop at once",
		`{"raw":1}`:                             "raw 1: it may be true or false",
		`{"id":` + strings.Repeat("[", 1<<20):   "exceeded max depth",
	} {
		_, _, err := readLine(lineDefaults(), inputLine{text: []byte(text)})
		assert.ErrorContains(t, err, what, "%.100s", text)
	}
	// Of two ids neither is the line's, and one that isn't text is none.
	for _, text := range []string{`{"id":1,"prompt":"a","id":1}`, "{\"id\":\"\xe9\",\"prompt\":\"a\"}"} {
		id, _, err := readLine(lineDefaults(), inputLine{text: []byte(text)})
		assert.Error(t, err)
		assert.Nil(t, id)
	}
}

// Whatever a line is, its result is one line of JSON, and what is taken is JSON.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte(`{"id":1,"prompt":"a","stop":["b"],"seed":3,"raw":true,"max_tokens":1}`))
	f.Add([]byte(`{"id":{"a":1e400},"prompt":"a","top_k":1,"top_p":0.5,"min_p":0,"temperature":0,"repeat_penalty":1}`))
	f.Add([]byte("{\"id\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.ReplaceAll(text, []byte("\n"), nil)
		k := &task{}
		k.id, k.request, k.err = readLine(lineDefaults(), inputLine{text: text})
		if k.err == nil {
			assert.True(t, json.Valid(text))
			assert.GreaterOrEqual(t, k.request.MaxTokens, 1)
			assert.NoError(t, k.request.Check())
		}
		var b bytes.Buffer
		require.NoError(t, k.appendTo(&b))
		assert.True(t, json.Valid(b.Bytes()) && utf8.Valid(b.Bytes()), b.String())
		assert.Equal(t, 1, bytes.Count(b.Bytes(), []byte("\n")))
	})
}
