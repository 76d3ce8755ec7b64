package device

import (
	"fmt"
	"strings"
)

// replicas separates the devices of one entry of a device list.
const replicas = "|"

// Each returns one place for each replica, none of which has an Also.
func (p Place) Each() []Place {
	also := p.Also
	p.Also = nil
	return append([]Place{p}, also...)
}

// Name returns the names of the place's devices: "cuda:0", or "cuda:0|cuda:1".
func (p Place) Name() string {
	name := p.Info.Name
	for _, also := range p.Also {
		name += replicas + also.Info.Name
	}
	return name
}

// parseEntry parses one entry of a device list.
func parseEntry(entry string) (Choice, error) {
	var c Choice
	var first Kind
	for i, part := range strings.Split(entry, replicas) {
		one, err := parseChoice(strings.TrimSpace(part))
		if err != nil {
			err.Entry = entry
			return Choice{}, err
		}
		kind, _ := kindOf(one.Name)
		switch {
		case i == 0:
			c, first = one, kind
			continue
		case c.Name == Auto || one.Name == Auto:
			return Choice{}, &ListError{entry, "auto stands for any number of devices, but a replica has one: name each device"}
		case kind != first:
			return Choice{}, &ListError{entry, fmt.Sprintf("%s and %s are of different kinds: replicas must give the same bits, and do so within one kind only; separate them by a comma", c.Name, one.Name)}
		}
		c.Also = append(c.Also, one)
	}
	return c, nil
}

// entry returns the entry's names as the list has them, without budgets and speeds.
func (c Choice) entry() string {
	name := c.Name
	for _, also := range c.Also {
		name += replicas + also.Name
	}
	return name
}

// placesOf returns the places that a device list names. It calls find for each choice,
// with Also left out, to get the places of that choice alone.
func placesOf(list string, find func(Choice) ([]Place, error)) ([]Place, error) {
	choices, err := ParseList(list)
	if err != nil {
		return nil, err
	}
	var places []Place
	for _, c := range choices {
		look := find
		if c.Also != nil {
			look = func(c Choice) ([]Place, error) { return replicated(c, find) }
		}
		found, err := look(c)
		if err != nil {
			return nil, err
		}
		places = append(places, found...)
	}
	return places, nil
}

// replicated returns the single place of an entry A|B.
func replicated(c Choice, find func(Choice) ([]Place, error)) ([]Place, error) {
	var place Place
	for i, part := range append([]Choice{c}, c.Also...) {
		found, err := find(part)
		if err != nil {
			return nil, err
		}
		if len(found) != 1 {
			return nil, &ListError{c.entry(), fmt.Sprintf("%s stands for %d devices, but a replica has one: name each device", part.Name, len(found))}
		}
		if i == 0 {
			place = found[0]
			continue
		}
		if a, b := place.Info, found[0].Info; a.SIMD != b.SIMD {
			return nil, &ListError{c.entry(), fmt.Sprintf("%s computes with %s and %s with %s: replicas must give the same bits, and do so within one SIMD level only; separate them by a comma",
				a.Name, a.SIMD, b.Name, b.SIMD)}
		}
		place.Also = append(place.Also, found[0])
	}
	return []Place{place}, nil
}
