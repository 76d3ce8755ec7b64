package placement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Parse reads a placement. name stands for the file in errors, which are all an
// *Error. What can be wrong only for a certain model is found by Runs.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name}
	if len(data) > MaxBytes {
		return nil, f.wrong(root, fmt.Errorf("the file is larger than %d bytes: is it a placement?", MaxBytes))
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, f.wrong(root, errors.New("the file is empty: a placement is an object with version and layers"))
	}
	r := &reader{jsontext.NewDecoder(bytes.NewBuffer(data)), f, data}
	if err := r.placement(); err != nil {
		return nil, err
	}
	return f, nil
}

// reader walks a document by what is expected at each place, so that it never goes
// deeper than the format does; captions it skips. The decoder refuses repeated keys and text that
// isn't UTF-8. All its errors are *Error.
type reader struct {
	*jsontext.Decoder
	file *File
	data []byte
}

func (r *reader) wrongf(at path, format string, args ...any) error {
	return r.file.wrong(at, fmt.Errorf(format, args...))
}

// kinds is how errors call what was found. What begins no value isn't in it, and
// is for the decoder to complain about.
var kinds = map[jsontext.Kind]string{
	'n': "null", 'f': "false", 't': "true", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
}

// next reads a token of one of the kinds wanted, which what describes.
func (r *reader) next(at path, what string, wanted ...jsontext.Kind) (jsontext.Token, error) {
	found := r.PeekKind()
	if name := kinds[found]; name != "" && !slices.Contains(wanted, found) {
		return jsontext.Token{}, r.wrongf(at, "%s, where %s belongs", name, what)
	}
	t, err := r.ReadToken()
	return t, r.syntax(at, err)
}

// syntax words an error of the decoder.
func (r *reader) syntax(at path, err error) error {
	if err == nil {
		return nil
	}
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.wrongf(at, "the file ends too early: the object isn't closed")
	case !errors.As(err, &s):
		return r.wrongf(at, "%w", err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		return r.wrongf(at.member(s.JSONPointer.LastToken()), "the key stands twice in its object: delete one of the two")
	}
	before := r.data[:min(int64(len(r.data)), s.ByteOffset)]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return r.wrongf(at, "line %d, byte %d is not JSON: %s", line, column, printable(s.Err.Error()))
}

// object reads an object, whose values member reads, and in which the required
// keys must be.
func (r *reader) object(at path, what string, member func(at path, key string) error, required ...string) error {
	if _, err := r.next(at, what, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for r.PeekKind() != '}' {
		t, err := r.ReadToken()
		if err != nil {
			return r.syntax(at, err)
		}
		key := t.String()
		seen[key] = true
		if err := member(at.member(key), key); err != nil {
			return err
		}
	}
	if _, err := r.ReadToken(); err != nil {
		return r.syntax(at, err)
	}
	for _, key := range required {
		if !seen[key] {
			return r.wrongf(at, "there is no %q: it must be given", key)
		}
	}
	return nil
}

func (r *reader) placement() error {
	f := r.file
	err := r.object(root, `an object, {"version":1,"layers":{…}},`, func(at path, key string) (err error) {
		switch key {
		case "version":
			var version int64
			if version, err = r.whole(at, math.MaxInt32); err == nil && version != Version {
				err = r.wrongf(at, "version %d, and this program reads version %d: save the plan anew, or use a program that reads it", version, Version)
			}
		case "layers":
			f.layers, err = r.layers(at)
		case "fallback":
			if f.fallback, err = r.text(at, `"cpu"`); err == nil && f.fallback != "cpu" {
				err = r.wrongf(at, `%s, and it may only be "cpu": write that, or delete it`, quote(f.fallback))
			}
		case "stages":
			f.stages, err = r.stages(at)
		case "expected", "room":
			err = r.caption(at, "an object", '{')
		case "unused":
			err = r.caption(at, "an array", '[')
		case "fits":
			err = r.caption(at, "true or false", 't', 'f')
		default:
			err = r.wrongf(at, "there is no such key in a placement: it may have version, layers, fallback, stages, expected, room, unused and fits")
		}
		return err
	}, "version", "layers")
	if err != nil {
		return err
	}
	if _, err := r.ReadToken(); err != io.EOF {
		return r.wrongf(root, "something follows the placement: delete what stands after its closing }")
	}
	return nil
}

// caption reads a value that is there for people, of one of the kinds wanted, which
// what describes.
func (r *reader) caption(at path, what string, wanted ...jsontext.Kind) error {
	found := r.PeekKind()
	if name := kinds[found]; name != "" && !slices.Contains(wanted, found) {
		return r.wrongf(at, "%s, where %s belongs", name, what)
	}
	return r.syntax(at, r.SkipValue())
}

func (r *reader) layers(at path) (layers Layers, err error) {
	err = r.object(at, "an object of layers and their devices", func(at path, key string) error {
		if err := checkKey(key); err != nil {
			return r.file.wrong(at, err)
		}
		device, err := r.device(at)
		layers = append(layers, Layer{key, device})
		return err
	})
	if err == nil && layers == nil {
		err = r.wrongf(at, `it names no layer: write {"*":"cpu"}, for one`)
	}
	return layers, err
}

func (r *reader) stages(at path) ([]Stage, error) {
	if _, err := r.next(at, "an array of stages", '['); err != nil {
		return nil, err
	}
	var stages []Stage
	for r.PeekKind() != ']' {
		s, err := r.stage(at.element(len(stages)))
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
	}
	if _, err := r.ReadToken(); err != nil {
		return nil, r.syntax(at, err)
	}
	if stages == nil {
		return nil, r.wrongf(at, `it has no stage: delete "stages"`)
	}
	return stages, nil
}

func (r *reader) stage(at path) (s Stage, err error) {
	err = r.object(at, "an object, a stage,", func(at path, key string) (err error) {
		var n int64
		switch key {
		case "device":
			s.Device, err = r.device(at)
		case "from":
			n, err = r.whole(at, math.MaxInt32)
			s.From = int(n)
		case "to":
			n, err = r.whole(at, math.MaxInt32)
			s.To = int(n)
		case "layers":
			s.Layers, err = r.text(at, "a string")
		case "bytes":
			s.Bytes, err = r.whole(at, maxExact)
		case "budget":
			s.Budget, err = r.whole(at, maxExact)
		case "weights", "kv_cache", "other":
			_, err = r.whole(at, maxExact)
		case "seconds", "round":
			err = r.caption(at, "a number", '0')
		default:
			err = r.wrongf(at, "there is no such key in a stage: it may have device, from, to, layers, bytes, budget, weights, kv_cache, other, seconds and round")
		}
		return err
	}, "device", "from", "to")
	if err == nil && s.From >= s.To {
		err = r.wrongf(at, "from %d to %d holds no entry: delete \"stages\"", s.From, s.To)
	}
	return s, err
}

// device reads the name of one device. The characters are checked here, so that
// the string stays one entry of a device list; what it means is not.
func (r *reader) device(at path) (string, error) {
	s, err := r.text(at, "a device's name, a string,")
	if err == nil {
		if err := checkDevice(s); err != nil {
			return "", r.file.wrong(at, err)
		}
	}
	return s, err
}

func (r *reader) text(at path, what string) (string, error) {
	t, err := r.next(at, what, '"')
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// maxExact is the largest whole number that every reader of JSON keeps exactly.
const maxExact = 1<<53 - 1

// whole reads a number from 0 to most without a fraction, however it is spelled.
func (r *reader) whole(at path, most int64) (int64, error) {
	t, err := r.next(at, "a whole number", '0')
	if err != nil {
		return 0, err
	}
	spelled := t.String()
	x, err := strconv.ParseFloat(spelled, 64)
	if err != nil || x < 0 || x > float64(most) || x != math.Trunc(x) {
		return 0, r.wrongf(at, "%s is not a whole number from 0 to %d", word(spelled), most)
	}
	return int64(x), nil
}

func checkDevice(name string) error {
	if name == "" {
		return errors.New(`the device's name is empty: write "cpu", for one`)
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == ',' }) {
		return fmt.Errorf("%s is not one device: write one name of a device list, such as \"cuda:0\", without spaces and commas", quote(name))
	}
	return nil
}
