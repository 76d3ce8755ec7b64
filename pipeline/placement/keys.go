package placement

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// index finds a model's layers by keys of a placement.
type index struct {
	layers   []string
	blocks   bool             // numbers count blocks, else entries
	numbers  map[int][]int    // the entries of a number
	names    map[string][]int // the entries of a name
	numbered []int            // the number of each entry; -1: it has none
	unclear  error            // why numbers can't be used, if they can't
}

func newIndex(layers []string) *index {
	x := &index{layers: layers, numbers: map[int][]int{}, names: map[string][]int{}, numbered: make([]int, len(layers))}
	for i, name := range layers {
		x.numbered[i] = blockNumber(name)
		x.blocks = x.blocks || x.numbered[i] >= 0
	}
	for i, name := range layers {
		if !x.blocks {
			x.numbered[i] = i
		}
		if n := x.numbered[i]; n >= 0 {
			x.numbers[n] = append(x.numbers[n], i)
		}
		x.names[name] = append(x.names[name], i)
		if name == "output head" {
			x.names["output"] = append(x.names["output"], i)
		}
	}
	for i, name := range layers {
		// A layer that is called by its own number is clear all the same.
		if from, to, err := numbers(name); err == nil && (from != to || x.numbered[i] != from) {
			x.unclear = fmt.Errorf("entry %d is itself called %s, so numbers are ambiguous: rename that layer", i, quote(name))
			break
		}
	}
	return x
}

// find returns the entries that a key names: none for "*".
func (x *index) find(key string) ([]int, error) {
	from, to, err := numbers(key)
	switch {
	case key == "*" && x.names[key] != nil:
		return nil, errors.New(`a layer is itself called "*", so the key is ambiguous: rename that layer`)
	case key == "*":
		return nil, nil
	case err != nil:
		return x.only(x.names[key], "layer "+quote(key))
	case x.unclear != nil:
		return nil, x.unclear
	}
	var entries []int
	for n := from; n <= to; n++ { // ends at the first number that the model lacks
		one, err := x.only(x.numbers[n], fmt.Sprintf("%s %d", x.counted(), n))
		if err != nil {
			return nil, err
		}
		entries = append(entries, one...)
	}
	return entries, nil
}

// counted is what numbers count.
func (x *index) counted() string {
	if x.blocks {
		return "block"
	}
	return "entry"
}

// only returns entries if there is one, and an error otherwise: none is what was
// asked for, or several are.
func (x *index) only(entries []int, what string) ([]int, error) {
	switch {
	case len(entries) == 1:
		return entries, nil
	case len(entries) > 1 && x.blocks:
		return nil, fmt.Errorf("entries %d and %d are both %s: rename one", entries[0], entries[1], what)
	case len(entries) > 1:
		return nil, fmt.Errorf("entries %d and %d are both %s: use their numbers, or rename one", entries[0], entries[1], what)
	case x.blocks:
		return nil, fmt.Errorf("there is no %s: the layers are %s", what, x.list())
	}
	return nil, fmt.Errorf("there is no %s: the layers, entries 0 to %d, are %s", what, len(x.layers)-1, x.list())
}

// list names the layers for an error: blocks in ranges, others by their names.
func (x *index) list() string {
	var words []string
	for from := 0; from < len(x.layers); {
		key, to := "", from+1
		if x.blocks {
			key, to = x.key(from, len(x.layers))
		}
		if key == "" {
			key = x.layers[from]
		}
		words = append(words, word(key))
		from = to
	}
	return several(words)
}

// key returns a key that stands for the layers from..end-1, or for the first of
// them, and the layer after those; "" where there is none that is clear.
func (x *index) key(from, end int) (key string, to int) {
	to = from + 1
	if n := x.numbered[from]; n >= 0 && x.unclear == nil && len(x.numbers[n]) == 1 {
		last := n
		for to < end && x.numbered[to] == last+1 && len(x.numbers[last+1]) == 1 {
			last++
			to++
		}
		if n == last {
			return strconv.Itoa(n), to
		}
		return fmt.Sprintf("%d-%d", n, last), to
	}
	keys := []string{x.layers[from]}
	if keys[0] == "output head" {
		keys = []string{"output", keys[0]}
	}
	for _, key := range keys {
		if entries, err := x.find(key); err == nil && len(entries) == 1 && checkKey(key) == nil && utf8.ValidString(key) {
			return key, to
		}
	}
	return "", to
}

// checkKey says what is wrong with a key, whatever the model.
func checkKey(key string) error {
	if key == "" {
		return errors.New("the key is empty: name a layer")
	}
	if _, _, err := numbers(key); err != nil && !errors.Is(err, errName) {
		return err
	}
	return nil
}

var errName = errors.New("a name, not a number")

// numbers reads a number or a range, the ends of which are included. The error
// is errName for what isn't meant as one.
func numbers(key string) (from, to int, err error) {
	if strings.Trim(key, "0123456789+-., :\t\r\n") != "" || key == "" {
		return 0, 0, errName
	}
	low, high, isRange := strings.Cut(key, "-")
	if !isRange {
		high = low
	}
	from, okFrom := number(low)
	to, okTo := number(high)
	switch {
	case !okFrom || !okTo:
		return 0, 0, fmt.Errorf(`%s is neither a number nor a range: write "3" or "1-2", without signs, spaces and leading zeros`, quote(key))
	case from > to:
		return 0, 0, fmt.Errorf("the range runs backwards: write \"%d-%d\"", to, from)
	}
	return from, to, nil
}

// number reads digits without a leading zero, up to 2^31-1.
func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && (s == "0" || s[0] != '0')
}

// blockNumber returns the number of a layer called "block N", or -1.
func blockNumber(name string) int {
	digits, isBlock := strings.CutPrefix(name, "block ")
	if n, ok := number(digits); isBlock && ok {
		return n
	}
	return -1
}
