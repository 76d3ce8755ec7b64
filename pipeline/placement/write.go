package placement

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// LayersOf describes runs of a model's layers as the "layers" of a placement, in
// forward order and with neighbouring numbers in ranges:
//
//	{"embedding":"cpu","0-3":"cuda:0","output":"cpu"}
//
// Runs of a file with these layers gives the same runs again, neighbours on one
// device taken together. The runs must hold every layer once, in order. It is an
// error where a layer has no key of its own, since others have its name.
func LayersOf(layers []string, runs []Run) (Layers, error) {
	x := newIndex(layers)
	var out Layers
	next := 0
	for i, r := range runs {
		if r.From != next || r.To <= r.From || r.To > len(layers) {
			return nil, fmt.Errorf("placement: run %d is entries %d to %d: it must begin at %d and end by %d, the number of layers", i, r.From, r.To, next, len(layers))
		}
		if err := checkDevice(r.Device); err != nil {
			return nil, fmt.Errorf("placement: run %d: %w", i, err)
		}
		for next < r.To {
			key, to := x.key(next, r.To)
			if key == "" {
				return nil, fmt.Errorf("placement: entry %d, called %s, can't be told from the others: rename it", next, quote(layers[next]))
			}
			out = append(out, Layer{key, r.Device})
			next = to
		}
	}
	if next < len(layers) || next == 0 {
		return nil, fmt.Errorf("placement: the runs end at entry %d of %d", next, len(layers))
	}
	return out, nil
}

// MarshalJSON implements json.Marshaler: an object with the keys in their order.
func (l Layers) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b)
	errs := []error{e.WriteToken(jsontext.BeginObject)}
	for _, layer := range l {
		errs = append(errs, e.WriteToken(jsontext.String(layer.Key)), e.WriteToken(jsontext.String(layer.Device)))
	}
	errs = append(errs, e.WriteToken(jsontext.EndObject))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
