package placement_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/placement"
)

const ok = `"version":1,"layers":{"*":"cpu"}`

// malformed are files that are wrong for any model, by JSON's grammar or by the
// format's. schema says that a schema can see it: not so of JSON that isn't
// well-formed, nor of what compares two values.
var malformed = []struct {
	file   string
	schema bool
	want   string
}{
	// Not JSON.
	{"", false, `$: the file is empty: a placement is an object with version and layers`},
	{" \n", false, `$: the file is empty: a placement is an object with version and layers`},
	{`{`, false, `$: the file ends too early: the object isn't closed`},
	{`{"version":1`, false, `$: the file ends too early: the object isn't closed`},
	{`{"version":1,"layers":{"0":`, false, `$.layers["0"]: the file ends too early: the object isn't closed`},
	{`{"version":1,"layers":{"0":"cp`, false, `$.layers["0"]: the file ends too early: the object isn't closed`},
	{`{` + ok + `,}`, false, `$: line 1, byte 34 is not JSON: invalid character ',' at start of value`},
	{"{\n\"version\":1,\n\"layers\":{\"0\" \"cpu\"}}", false, `$.layers["0"]: line 3, byte 15 is not JSON: invalid character '"' after object name (expecting ':')`},
	{`{"version":1,"layers":{"0":}}`, false, `$.layers["0"]: line 1, byte 28 is not JSON: missing value after object name`},
	{`{"version":1,"layers":{"0":cpu}}`, false, `$.layers["0"]: line 1, byte 28 is not JSON: invalid character 'c' at start of value`},
	{`{"version":1,"layers":{"*":"cpu"]}`, false, `$.layers: line 1, byte 33 is not JSON: invalid character ']' after object value (expecting ',' or '}')`},
	{"{" + ok + ",\"stages\":[}", false, `$.stages[0]: line 1, byte 45 is not JSON: invalid character '}' at start of value`},
	{"\ufeff{" + ok + "}", false, `$: line 1, byte 1 is not JSON: invalid character '\ufeff' at start of value`},
	{"// mine\n{" + ok + "}", false, `$: line 1, byte 1 is not JSON: invalid character '/' at start of value`},
	{`{"version":1.,"layers":{"*":"cpu"}}`, false, `$.version: line 1, byte 14 is not JSON: invalid character ',' in number (expecting digit)`},
	{"{" + ok + ",\"stages\":[{\"layers\":\"\xff\",\"device\":\"cpu\",\"from\":0,\"to\":7}]}", false, `$.stages[0].layers: line 1, byte 56 is not JSON: invalid UTF-8`},
	{"{\"version\":1,\"layers\":{\"\xff\":\"cpu\"}}", false, `$.layers: line 1, byte 25 is not JSON: invalid UTF-8`},
	{`{"version":1,"layers":{"\ud800":"cpu"}}`, false, "$.layers: line 1, byte 25 is not JSON: invalid surrogate pair `\\ud800\":\"cpu` in string"},
	{`{` + ok + `} {}`, false, `$: something follows the placement: delete what stands after its closing }`},
	{`{` + ok + `}}`, false, `$: something follows the placement: delete what stands after its closing }`},
	{`{` + ok + "}\x00", false, `$: something follows the placement: delete what stands after its closing }`},

	// Repeated keys, however they are spelled.
	{`{"version":1,` + ok + `}`, false, `$.version: the key stands twice in its object: delete one of the two`},
	{`{"version":1,"layers":{"1-2":"cpu","*":"cpu","1-2":"cuda:0"}}`, false, `$.layers["1-2"]: the key stands twice in its object: delete one of the two`},
	{`{"version":1,"layers":{"0":"cpu","\u0030":"cpu"}}`, false, `$.layers["0"]: the key stands twice in its object: delete one of the two`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":7,"from":0}]}`, false, `$.stages[0].from: the key stands twice in its object: delete one of the two`},

	// Not the expected kinds of values.
	{`[]`, true, `$: an array, where an object, {"version":1,"layers":{…}}, belongs`},
	{`null`, true, `$: null, where an object, {"version":1,"layers":{…}}, belongs`},
	{`"cpu"`, true, `$: a string, where an object, {"version":1,"layers":{…}}, belongs`},
	{`{"version":"1","layers":{"*":"cpu"}}`, true, `$.version: a string, where a whole number belongs`},
	{`{"version":1,"layers":null}`, true, `$.layers: null, where an object of layers and their devices belongs`},
	{`{"version":1,"layers":["cpu"]}`, true, `$.layers: an array, where an object of layers and their devices belongs`},
	{`{"version":1,"layers":{"1-2":0}}`, true, `$.layers["1-2"]: a number, where a device's name, a string, belongs`},
	{`{"version":1,"layers":{"*":["cuda:0","cpu"]}}`, true, `$.layers["*"]: an array, where a device's name, a string, belongs`},
	{`{` + ok + `,"fallback":true}`, true, `$.fallback: true, where "cpu" belongs`},
	{`{` + ok + `,"fits":"yes"}`, true, `$.fits: a string, where true or false belongs`},
	{`{` + ok + `,"fits":null}`, true, `$.fits: null, where true or false belongs`},
	{`{` + ok + `,"stages":null}`, true, `$.stages: null, where an array of stages belongs`},
	{`{` + ok + `,"stages":{}}`, true, `$.stages: an object, where an array of stages belongs`},
	{`{` + ok + `,"stages":[false]}`, true, `$.stages[0]: false, where an object, a stage, belongs`},
	{`{` + ok + `,"stages":[{"device":1}]}`, true, `$.stages[0].device: a number, where a device's name, a string, belongs`},
	{`{` + ok + `,"stages":[{"layers":0}]}`, true, `$.stages[0].layers: a number, where a string belongs`},

	// What must be there, and what may.
	{`{}`, true, `$: there is no "version": it must be given`},
	{`{"layers":{"*":"cpu"}}`, true, `$: there is no "version": it must be given`},
	{`{"version":1}`, true, `$: there is no "layers": it must be given`},
	{`{"version":1,"layers":{}}`, true, `$.layers: it names no layer: write {"*":"cpu"}, for one`},
	{`{"version":2,"layers":{"*":"cpu"}}`, true, `$.version: version 2, and this program reads version 1: save the plan anew, or use a program that reads it`},
	{`{"version":1.5,"layers":{"*":"cpu"}}`, true, `$.version: 1.5 is not a whole number from 0 to 2147483647`},
	{`{"version":-1,"layers":{"*":"cpu"}}`, true, `$.version: -1 is not a whole number from 0 to 2147483647`},
	{`{` + ok + `,"expected":1.9}`, true, `$.expected: a number, where an object belongs`},
	{`{` + ok + `,"room":[]}`, true, `$.room: an array, where an object belongs`},
	{`{` + ok + `,"unused":{}}`, true, `$.unused: an object, where an array belongs`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":7,"weights":-1}]}`, true, `$.stages[0].weights: -1 is not a whole number from 0 to 9007199254740991`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":7,"round":"half"}]}`, true, `$.stages[0].round: a string, where a number belongs`},
	{`{` + ok + `,"expected":{"a":1,"a":2}}`, false, `$.expected.a: the key stands twice in its object: delete one of the two`},
	{`{` + ok + `,"devices":"cpu"}`, true, `$.devices: there is no such key in a placement: it may have version, layers, fallback, stages, expected, room, unused and fits`},
	{`{` + ok + `,"Fallback":"cpu"}`, true, `$.Fallback: there is no such key in a placement: it may have version, layers, fallback, stages, expected, room, unused and fits`},
	{`{` + ok + `,"":0}`, true, `$[""]: there is no such key in a placement: it may have version, layers, fallback, stages, expected, room, unused and fits`},
	{`{` + ok + `,"my \"key\"\n":0}`, true, `$["my \"key\"\n"]: there is no such key in a placement: it may have version, layers, fallback, stages, expected, room, unused and fits`},
	{`{` + ok + `,"fallback":""}`, true, `$.fallback: "", and it may only be "cpu": write that, or delete it`},
	{`{` + ok + `,"fallback":"cuda:0"}`, true, `$.fallback: "cuda:0", and it may only be "cpu": write that, or delete it`},
	{`{` + ok + `,"stages":[]}`, true, `$.stages: it has no stage: delete "stages"`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0}]}`, true, `$.stages[0]: there is no "to": it must be given`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":7,"busy":1}]}`, true, `$.stages[0].busy: there is no such key in a stage: it may have device, from, to, layers, bytes, budget, weights, kv_cache, other, seconds and round`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":-1,"to":7}]}`, true, `$.stages[0].from: -1 is not a whole number from 0 to 2147483647`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":1e99}]}`, true, `$.stages[0].to: 1e99 is not a whole number from 0 to 2147483647`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":7,"bytes":-1}]}`, true, `$.stages[0].bytes: -1 is not a whole number from 0 to 9007199254740991`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":0,"to":7,"budget":9007199254740992}]}`, true, `$.stages[0].budget: 9007199254740992 is not a whole number from 0 to 9007199254740991`},
	{`{` + ok + `,"stages":[{"device":"cpu","from":3,"to":3}]}`, false, `$.stages[0]: from 3 to 3 holds no entry: delete "stages"`},

	// Devices.
	{`{"version":1,"layers":{"0":""}}`, true, `$.layers["0"]: the device's name is empty: write "cpu", for one`},
	{`{"version":1,"layers":{"*":"cuda:0,cpu"}}`, true, `$.layers["*"]: "cuda:0,cpu" is not one device: write one name of a device list, such as "cuda:0", without spaces and commas`},
	{`{"version":1,"layers":{"*":" cpu"}}`, true, `$.layers["*"]: " cpu" is not one device: write one name of a device list, such as "cuda:0", without spaces and commas`},
	{`{"version":1,"layers":{"*":"cpu\u00a0"}}`, true, `$.layers["*"]: "cpu\u00a0" is not one device: write one name of a device list, such as "cuda:0", without spaces and commas`},
	{`{` + ok + `,"stages":[{"device":""}]}`, true, `$.stages[0].device: the device's name is empty: write "cpu", for one`},

	// Keys of layers.
	{`{"version":1,"layers":{"":"cpu"}}`, true, `$.layers[""]: the key is empty: name a layer`},
	{`{"version":1,"layers":{"2-1":"cpu"}}`, false, `$.layers["2-1"]: the range runs backwards: write "1-2"`},
	{`{"version":1,"layers":{"01":"cpu"}}`, true, neither("01")},
	{`{"version":1,"layers":{"00":"cpu"}}`, true, neither("00")},
	{`{"version":1,"layers":{"1-02":"cpu"}}`, true, neither("1-02")},
	{`{"version":1,"layers":{"+1":"cpu"}}`, true, neither("+1")},
	{`{"version":1,"layers":{"-1":"cpu"}}`, true, neither("-1")},
	{`{"version":1,"layers":{"1-":"cpu"}}`, true, neither("1-")},
	{`{"version":1,"layers":{"-":"cpu"}}`, true, neither("-")},
	{`{"version":1,"layers":{" 1":"cpu"}}`, true, neither(" 1")},
	{`{"version":1,"layers":{"1 - 2":"cpu"}}`, true, neither("1 - 2")},
	{`{"version":1,"layers":{"1-2-3":"cpu"}}`, true, neither("1-2-3")},
	{`{"version":1,"layers":{"1,2":"cpu"}}`, true, neither("1,2")},
	{`{"version":1,"layers":{"1.0":"cpu"}}`, true, neither("1.0")},
	{`{"version":1,"layers":{"1..2":"cpu"}}`, true, neither("1..2")},
	{`{"version":1,"layers":{"1:2":"cpu"}}`, true, neither("1:2")},
	{`{"version":1,"layers":{" ":"cpu"}}`, true, neither(" ")},
	{`{"version":1,"layers":{"99999999999":"cpu"}}`, true, neither("99999999999")},
	{`{"version":1,"layers":{"0-2147483648":"cpu"}}`, false, neither("0-2147483648")},
}

func neither(key string) string {
	return `$.layers["` + key + `"]: "` + key + `" is neither a number nor a range: write "3" or "1-2", without signs, spaces and leading zeros`
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		f, err := placement.Parse("p.json", []byte(c.file))
		assert.EqualError(t, err, "p.json: "+c.want, c.file)
		assert.Nil(t, f, c.file)
	}
}

// What a file holds in excess is neither read to its end nor shown in full.
func TestLarge(t *testing.T) {
	deep := strings.Repeat("[", 500_000)
	long := strings.Repeat("x", 500_000)
	for _, file := range []string{
		deep,
		`{"version":` + deep,
		`{"version":1,"layers":{"*":` + strings.Repeat(`{"*":`, 100_000),
		`{` + ok + `,"more":` + deep,
		`{` + ok + `,"stages":[` + deep,
		`{` + ok + `,"` + long + `":1}`,
		`{"version":1,"layers":{"` + long + `":",` + long + `"}}`,
		`{"version":1,"layers":{"0":",` + long + `"}}`,
		`{"version":1` + strings.Repeat("0", 500_000) + `}`,
		strings.Repeat(" ", placement.MaxBytes) + "{" + ok + "}",
	} {
		_, err := placement.Parse("p.json", []byte(file))
		require.Error(t, err, file[:40])
		assert.Less(t, len(err.Error()), 300)
		assert.NotContains(t, err.Error(), "\n")
	}
}

// These are well-formed, and wrong for the model (or the layers given).
func TestNotForTheModel(t *testing.T) {
	twice := []string{"linear", "linear", "relu"}
	for _, c := range []struct {
		layers  []string
		mapping string
		want    string
	}{
		// Layers that aren't there.
		{model, `"5":"cpu","*":"cpu"`, `["5"]: there is no block 5: the layers are embedding, 0-4, output`},
		{model, `"3-6":"cpu","*":"cpu"`, `["3-6"]: there is no block 5: the layers are embedding, 0-4, output`},
		{model, `"0-2147483647":"cpu","*":"cpu"`, `["0-2147483647"]: there is no block 5: the layers are embedding, 0-4, output`},
		{model, `"head":"cpu","*":"cpu"`, `.head: there is no layer "head": the layers are embedding, 0-4, output`},
		{model, `"Embedding":"cpu","*":"cpu"`, `.Embedding: there is no layer "Embedding": the layers are embedding, 0-4, output`},
		{model, `"block 05":"cpu","*":"cpu"`, `["block 05"]: there is no layer "block 05": the layers are embedding, 0-4, output`},
		{model, `"**":"cpu","*":"cpu"`, `["**"]: there is no layer "**": the layers are embedding, 0-4, output`},
		{mlp, `"4":"cpu","*":"cpu"`, `["4"]: there is no entry 4: the layers, entries 0 to 3, are wide, narrow, wide again, softmax`},
		{mlp, `"embedding":"cpu","*":"cpu"`, `.embedding: there is no layer "embedding": the layers, entries 0 to 3, are wide, narrow, wide again, softmax`},
		{[]string{"block 0", "block 2", "100%d"}, `"0-2":"cpu","*":"cpu"`, `["0-2"]: there is no block 1: the layers are 0, 2, 100%d`},
		{strings.Split("abcdefghij", ""), `"k":"cpu","*":"cpu"`, `.k: there is no layer "k": the layers, entries 0 to 9, are a, b, c, d, e, f, g and 3 more`},
		{[]string{"a\nb", "", "\xff"}, `"k":"cpu","*":"cpu"`, `.k: there is no layer "k": the layers, entries 0 to 2, are "a\nb", "", "\xff"`},

		// Overlaps.
		{model, `"1-2":"cpu","2":"cuda:0","*":"cpu"`, `["2"]: block 2 is named by "1-2" already: name it once`},
		{model, `"2":"cpu","1-2":"cpu","*":"cpu"`, `["1-2"]: block 2 is named by "2" already: name it once`},
		{model, `"2":"cpu","2-2":"cpu","*":"cpu"`, `["2-2"]: block 2 is named by "2" already: name it once`},
		{model, `"2":"cpu","block 2":"cpu","*":"cpu"`, `["block 2"]: block 2 is named by "2" already: name it once`},
		{model, `"output":"cpu","output head":"cpu","*":"cpu"`, `["output head"]: output head is named by "output" already: name it once`},
		{mlp, `"softmax":"cpu","2-3":"cuda:0","*":"cpu"`, `["2-3"]: softmax is named by "softmax" already: name it once`},

		// Gaps.
		{model, `"0-4":"cuda:0","output":"cpu"`, `: it gives no device for embedding: add what is missing, or "*" for all the rest`},
		{model, `"embedding":"cpu","0-1":"cuda:0"`, `: it gives no device for block 2, block 3, block 4, output head: add what is missing, or "*" for all the rest`},
		{strings.Split("abcdefghij", ""), `"0":"cpu"`, `: it gives no device for b, c, d, e, f, g, h and 2 more: add what is missing, or "*" for all the rest`},

		// Names that could mean two layers.
		{twice, `"linear":"cpu","*":"cpu"`, `.linear: entries 0 and 1 are both layer "linear": use their numbers, or rename one`},
		{[]string{"block 0", "block 0"}, `"0":"cpu","*":"cpu"`, `["0"]: entries 0 and 1 are both block 0: rename one`},
		{[]string{"output", "output head"}, `"output":"cpu","*":"cpu"`, `.output: entries 0 and 1 are both layer "output": use their numbers, or rename one`},
		{[]string{"a", "3", "b", "c"}, `"3":"cpu","*":"cpu"`, `["3"]: entry 1 is itself called "3", so numbers are ambiguous: rename that layer`},
		{[]string{"a", "3", "b", "c"}, `"0-1":"cpu","*":"cpu"`, `["0-1"]: entry 1 is itself called "3", so numbers are ambiguous: rename that layer`},
		{[]string{"a", "0-1"}, `"0-1":"cpu"`, `["0-1"]: entry 1 is itself called "0-1", so numbers are ambiguous: rename that layer`},
		{[]string{"0", "block 0"}, `"0":"cpu","*":"cpu"`, `["0"]: entry 0 is itself called "0", so numbers are ambiguous: rename that layer`},
		{[]string{"a", "*"}, `"*":"cpu"`, `["*"]: a layer is itself called "*", so the key is ambiguous: rename that layer`},

		{nil, `"*":"cpu"`, `: the model has no layers to place`},
	} {
		f, err := placement.Parse("p.json", []byte(`{"version":1,"layers":{`+c.mapping+`}}`))
		require.NoError(t, err, c.mapping)
		runs, err := f.Runs(c.layers, nil)
		assert.EqualError(t, err, "p.json: $.layers"+c.want, c.mapping)
		assert.Nil(t, runs, c.mapping)
	}
}

// The stages of a plan must say what its layers say.
func TestStages(t *testing.T) {
	cores := func(device string) string {
		return map[string]string{"cpu": "cpu:0-1", "cpu/1": "cpu:0-1", "cpu:0-1": "cpu:0-1", "cpu:0": "cpu:0"}[device]
	}
	const twoRuns = `{"embedding":"cpu=4GiB","*":"cuda:0@3"}`
	for _, c := range []struct {
		says, layers, stages string
		nameOf               func(string) string
		want                 string // "": they agree
	}{
		{"the same, without budget and speed", twoRuns, `{"device":"cpu","from":0,"to":1},{"device":"cuda:0","from":1,"to":7}`, nil, ""},
		{"the same, with others", twoRuns, `{"device":"cpu@2","from":0,"to":1},{"device":"cuda:0=1","from":1,"to":7}`, nil, ""},
		{"the CPU by its cores", twoRuns, `{"device":"cpu:0-1","from":0,"to":1},{"device":"cuda:0","from":1,"to":7}`, cores, ""},
		{"two names of one device", `{"*":"cpu/1@2"}`, `{"device":"cpu","from":0,"to":7}`, cores, ""},
		{"other cores", twoRuns, `{"device":"cpu:0","from":0,"to":1},{"device":"cuda:0","from":1,"to":7}`, cores,
			`[0].device: it disagrees with "layers": the device of entries 0 to 0 is cpu=4GiB, not cpu:0: delete "stages"`},
		{"its cores, where nobody knows them", twoRuns, `{"device":"cpu:0-1","from":0,"to":1},{"device":"cuda:0","from":1,"to":7}`, nil,
			`[0].device: it disagrees with "layers": the device of entries 0 to 0 is cpu=4GiB, not cpu:0-1: delete "stages"`},
		{"devices that nobody knows", `{"*":"cuda:0"}`, `{"device":"cuda:1","from":0,"to":7}`, cores,
			`[0].device: it disagrees with "layers": the device of entries 0 to 6 is cuda:0, not cuda:1: delete "stages"`},
		{"a cut elsewhere", twoRuns, `{"device":"cpu","from":0,"to":2},{"device":"cuda:0","from":2,"to":7}`, nil,
			`[0].to: it disagrees with "layers": the run on cpu=4GiB ends before entry 1, not before 2: delete "stages"`},
		{"a hole", twoRuns, `{"device":"cpu","from":0,"to":1},{"device":"cuda:0","from":2,"to":7}`, nil,
			`[1].from: it disagrees with "layers": the stage begins with entry 1, not with 2: delete "stages"`},
		{"a late start", twoRuns, `{"device":"cpu","from":1,"to":7}`, nil,
			`[0].from: it disagrees with "layers": the stage begins with entry 0, not with 1: delete "stages"`},
		{"an early end", twoRuns, `{"device":"cpu","from":0,"to":1},{"device":"cuda:0","from":1,"to":6}`, nil,
			`: it disagrees with "layers": the stages end before entry 6 of 7: delete "stages"`},
		{"another model's", `{"*":"cpu"}`, `{"device":"cpu","from":0,"to":34}`, nil,
			`[0].to: it disagrees with "layers": the run on cpu ends before entry 7, not before 34: delete "stages"`},
		{"one too many", `{"*":"cpu"}`, `{"device":"cpu","from":0,"to":7},{"device":"cpu","from":7,"to":8}`, nil,
			`[1]: it disagrees with "layers": the stages before it hold all 7 entries: delete "stages"`},
	} {
		f, err := placement.Parse("p.json", []byte(`{"version":1,"layers":`+c.layers+`,"stages":[`+c.stages+`]}`))
		require.NoError(t, err, c.says)
		_, err = f.Runs(model, c.nameOf)
		if c.want == "" {
			assert.NoError(t, err, c.says)
		} else {
			assert.EqualError(t, err, "p.json: $.stages"+c.want, c.says)
		}
	}
}
