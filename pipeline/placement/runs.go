package placement

import (
	"errors"
	"fmt"
	"strings"
)

// Runs places the layers of a model, given by their names in forward order:
// "embedding", "block 0", …, "output head", or a caller's own. The runs hold
// every entry once, in order. Neighbouring entries with one device string are
// one run, unless the file's "stages" divides them; a device may come back in a
// later run.
//
// Keys that no layer has, layers named twice or not at all, and a "stages" that
// says other than "layers" are each an *Error. Devices are compared there
// without =SIZE and @X. nameOf, if not nil, gives the full name of a device,
// where one device has several ("cpu:0-1" for "cpu"), or "" where it knows none.
func (f *File) Runs(layers []string, nameOf func(device string) string) ([]Run, error) {
	if len(layers) == 0 {
		return nil, f.wrong(root.member("layers"), errors.New("the model has no layers to place"))
	}
	keys, err := f.place(layers)
	if err != nil {
		return nil, err
	}
	var runs []Run
	for i, k := range keys {
		device := f.layers[k].Device
		if last := len(runs) - 1; last >= 0 && runs[last].Device == device {
			runs[last].To = i + 1
		} else {
			runs = append(runs, Run{device, i, i + 1})
		}
	}
	if f.stages == nil {
		return runs, nil
	}
	return f.divide(runs, nameOf)
}

// place returns for each layer which key of the file names it.
func (f *File) place(layers []string) ([]int, error) {
	const nobody = -1
	x := newIndex(layers)
	at := root.member("layers")
	keys := make([]int, len(layers))
	for i := range keys {
		keys[i] = nobody
	}
	rest := nobody
	for k, l := range f.layers {
		entries, err := x.find(l.Key)
		switch {
		case err != nil:
			return nil, f.wrong(at.member(l.Key), err)
		case l.Key == "*":
			rest = k
		}
		for _, e := range entries {
			if keys[e] != nobody {
				return nil, f.wrong(at.member(l.Key), fmt.Errorf("%s is named by %s already: name it once",
					word(layers[e]), quote(f.layers[keys[e]].Key)))
			}
			keys[e] = k
		}
	}
	var missing []string
	for i := range keys {
		if keys[i] == nobody {
			keys[i] = rest
			missing = append(missing, word(layers[i]))
		}
	}
	if missing != nil && rest == nobody {
		return nil, f.wrong(at, fmt.Errorf(`it gives no device for %s: add what is missing, or "*" for all the rest`, several(missing)))
	}
	return keys, nil
}

// divide cuts runs where the file's stages are cut, which must say the same.
func (f *File) divide(runs []Run, nameOf func(string) string) ([]Run, error) {
	disagrees := func(at path, format string, args ...any) ([]Run, error) {
		return nil, f.wrong(at, fmt.Errorf(`it disagrees with "layers": `+format+`: delete "stages"`, args...))
	}
	var divided []Run
	next := 0
	for i, s := range f.stages {
		at := root.member("stages").element(i)
		if len(runs) == 0 {
			return disagrees(at, "the stages before it hold all %d entries", next)
		}
		switch r := runs[0]; {
		case s.From != next:
			return disagrees(at.member("from"), "the stage begins with entry %d, not with %d", next, s.From)
		case s.To > r.To:
			return disagrees(at.member("to"), "the run on %s ends before entry %d, not before %d", word(r.Device), r.To, s.To)
		case !sameDevice(s.Device, r.Device, nameOf):
			return disagrees(at.member("device"), "the device of entries %d to %d is %s, not %s", r.From, r.To-1, word(r.Device), word(s.Device))
		default:
			divided = append(divided, Run{r.Device, s.From, s.To})
			if next = s.To; next == r.To {
				runs = runs[1:]
			}
		}
	}
	if len(runs) > 0 {
		return disagrees(root.member("stages"), "the stages end before entry %d of %d", next, runs[len(runs)-1].To)
	}
	return divided, nil
}

func sameDevice(a, b string, nameOf func(string) string) bool {
	a, b = bare(a), bare(b)
	if a == b || nameOf == nil {
		return a == b
	}
	full := nameOf(a)
	return full != "" && full == nameOf(b)
}

// bare is a device's name without its budget and speed, or with replicas those of
// all of them: "cpu:0|cpu:1".
func bare(device string) string {
	replicas := strings.Split(device, "|")
	for i, r := range replicas {
		if end := strings.IndexAny(r, "=@"); end >= 0 {
			replicas[i] = r[:end]
		}
	}
	return strings.Join(replicas, "|")
}

// several lists some of the names, and says how many there are besides.
func several(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], ", "), len(names)-most+1)
}
