package device

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Auto is the name that stands for every GPU that is there, then the CPU.
const Auto = "auto"

// Choice is one entry of a device list as it is written.
type Choice struct {
	Name   string  // of a device, or of several: "cuda:0", "cpu/2", "auto"
	Budget Budget  // what a stage there may hold
	Speed  float64 // relative to the list's others; 0: not given

	Also []Choice // of an entry A|B: what follows the first
}

// Place is where a stage may stand: on one device, or with a replica on each of
// several, which are of one kind and one SIMD level.
type Place struct {
	Info   Info
	Budget int64   // bytes that the stage may hold; negative: none was given
	Speed  float64 // relative to the list's others; 0: not given

	Guessed bool // nobody gave the speed: it is WhatIf's guess

	Also []Place // where its other replicas stand
}

// String is the place as a device list has it: "cuda:0=1073741824@2|cuda:1".
func (p Place) String() string {
	s := p.alone()
	for _, also := range p.Also {
		s += replicas + also.alone()
	}
	return s
}

func (p Place) alone() string {
	s := p.Info.Name
	if p.Budget >= 0 {
		s += fmt.Sprintf("=%d", p.Budget)
	}
	if p.Speed > 0 && !p.Guessed {
		s += "@" + strconv.FormatFloat(p.Speed, 'g', -1, 64)
	}
	return s
}

// ListError says that a device list can't be understood, as opposed to a device
// that isn't there.
type ListError struct {
	Entry  string // the part of the list that is wrong
	Reason string
}

// Error implements error.
func (e *ListError) Error() string {
	return fmt.Sprintf("device list entry %q: %s", e.Entry, e.Reason)
}

// ParseList reads a device list without looking at the machine: entries
// separated by commas, each a name (cuda:0, cpu, cpu:0-3, cpu/2, auto), then in
// either order =SIZE or =P%, its budget, and @X, its relative speed. A name may
// stand more than once; each is a place of its own. An entry A|B is one place with
// a replica on each. Whatever it can't understand is a *ListError.
func ParseList(list string) ([]Choice, error) {
	var choices []Choice
	for entry := range strings.SplitSeq(list, ",") {
		c, err := parseEntry(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		choices = append(choices, c)
	}
	return choices, nil
}

// Resolve reads a device list as ParseList does and finds the devices that it
// means, in forward order, without opening them. All devices of one entry get
// its budget and speed: cpu/4=1GiB is four places of 1 GiB each. A percentage is
// of the memory that is free now.
//
// The devices of A|B must be of one kind, and of one SIMD level if they are CPUs,
// for a result has the same bits within one kind only. The same device may stand
// there twice: then the two replicas share it, with weights for each.
//
// threads is the most CPU threads that "cpu", "cpu/N" and "auto" may take in
// all; 0: no limit. A list that can't be understood is a *ListError; a device
// that isn't there is another error, with the reason that its backend gives.
func Resolve(list string, threads int) ([]Place, error) {
	return placesOf(list, func(c Choice) ([]Place, error) {
		infos, err := expand(c.Name, threads)
		if err != nil {
			return nil, err
		}
		var places []Place
		for _, info := range infos {
			budget, err := c.Budget.Bytes(info.Free)
			if err != nil {
				return nil, fmt.Errorf("device %s: %w", info.Name, err)
			}
			places = append(places, Place{Info: info, Budget: budget, Speed: c.Speed})
		}
		return places, nil
	})
}

// expand returns the devices that a name stands for.
func expand(name string, threads int) ([]Info, error) {
	if name != Auto {
		_, infos, err := resolve(name, threads)
		return infos, err
	}
	found, _ := Discover()
	gpus := slices.DeleteFunc(found, func(i Info) bool { return i.Kind == CPU })
	_, cpu, err := resolve(CPU.String(), threads)
	return append(gpus, cpu...), err
}

// resolve asks the backend of a name which devices it stands for.
func resolve(name string, threads int) (Backend, []Info, error) {
	kind, err := kindOf(name)
	if err != nil {
		return nil, nil, err
	}
	b, err := backend(kind)
	var infos []Info
	if err == nil {
		infos, err = b.Resolve(name, threads)
	}
	if wrong := (*ListError)(nil); err != nil && !errors.As(err, &wrong) {
		err = fmt.Errorf("device %s: %w", name, err)
	}
	return b, infos, err
}

func parseChoice(entry string) (Choice, *ListError) {
	wrong := func(format string, args ...any) (Choice, *ListError) {
		return Choice{}, &ListError{entry, fmt.Sprintf(format, args...)}
	}
	end := strings.IndexAny(entry, "=@")
	if end < 0 {
		end = len(entry)
	}
	c := Choice{Name: entry[:end]}
	if c.Name != Auto {
		if _, err := kindOf(c.Name); err != nil {
			return wrong("%s", err.(*ListError).Reason)
		}
	}
	for rest := entry[end:]; rest != ""; {
		mark, value := rest[0], rest[1:]
		end := strings.IndexAny(value, "=@")
		if end < 0 {
			end = len(value)
		}
		value, rest = value[:end], value[end:]
		switch {
		case mark == '=' && c.Budget.Given():
			return wrong("it has two budgets")
		case mark == '@' && c.Speed != 0:
			return wrong("it has two speeds")
		case mark == '=':
			b, err := ParseBudget(value)
			if err != nil {
				return wrong("budget: %v", err)
			}
			c.Budget = b
		default:
			x, err := strconv.ParseFloat(value, 64)
			if err != nil || !(x > 0) || math.IsInf(x, 0) {
				return wrong("the speed %q is not a number above 0", value)
			}
			c.Speed = x
		}
	}
	return c, nil
}

// kindOf returns the kind of a device's name, which is the kind alone, or
// followed by ":" or "/" and something that the backend understands.
func kindOf(name string) (Kind, error) {
	end := strings.IndexAny(name, ":/")
	if end < 0 {
		end = len(name)
	}
	for _, k := range Kinds {
		if name[:end] != k.String() {
			continue
		}
		if end == len(name)-1 {
			return 0, &ListError{name, fmt.Sprintf("nothing follows the %q", name[end:])}
		}
		return k, nil
	}
	if name == "" {
		return 0, &ListError{name, "there is no name"}
	}
	return 0, &ListError{name, fmt.Sprintf("there is no kind of device %q: there are cpu, cuda, rocm and metal", name[:end])}
}
