package device

import (
	"fmt"
	"strings"
)

// replicas stands between the devices of an entry.
const replicas = "|"

// Each returns where the replicas stand, one by one.
func (p Place) Each() []Place {
	also := p.Also
	p.Also = nil
	return append([]Place{p}, also...)
}

// Name is the names of its devices: "cuda:0", or "cuda:0|cuda:1".
func (p Place) Name() string {
	name := p.Info.Name
	for _, also := range p.Also {
		name += replicas + also.Info.Name
	}
	return name
}

// parseEntry reads an entry of a list.
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
			return Choice{}, &ListError{entry, "auto stands for any number of devices: a replica has one, so name each"}
		case kind != first:
			return Choice{}, &ListError{entry, fmt.Sprintf("%s and %s are of different kinds: replicas must give the same bits, and do so within one kind only; separate them by a comma", c.Name, one.Name)}
		}
		c.Also = append(c.Also, one)
	}
	return c, nil
}

// entry is about what the list has for the choice.
func (c Choice) entry() string {
	name := c.Name
	for _, also := range c.Also {
		name += replicas + also.Name
	}
	return name
}

// placesOf returns the places of a list. find returns those of one choice, which
// has no others beside it.
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

// replicated returns the one place of an entry A|B.
func replicated(c Choice, find func(Choice) ([]Place, error)) ([]Place, error) {
	var place Place
	for i, part := range append([]Choice{c}, c.Also...) {
		found, err := find(part)
		if err != nil {
			return nil, err
		}
		if len(found) != 1 {
			return nil, &ListError{c.entry(), fmt.Sprintf("%s stands for %d devices: a replica has one, so name each", part.Name, len(found))}
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
