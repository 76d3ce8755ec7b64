package device

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Auto is the name, in a device list, of all GPUs that can be used and the CPU, in this
// order.
const Auto = "auto"

// Choice is one entry of a parsed device list. It need not name devices that exist.
type Choice struct {
	Name   string  // the name of one device or of several: "cuda:0", "cpu/2", "auto"
	Budget Budget  // the memory that a stage on each of them may use
	Speed  float64 // relative to the other entries; 0 if not given

	Also []Choice // in an entry A|B, the choices after the first
}

// Place is one position for a stage in a device list: a device or, if the stage has
// replicas, several devices of one kind and one SIMD level.
type Place struct {
	Info   Info    // the device, or that of the first replica
	Budget int64   // bytes of memory that the stage may use; negative if not given
	Speed  float64 // relative to the other places; 0 if not given

	Guessed bool // whether Speed is WhatIf's guess because the list gives none

	Also []Place // the places of the other replicas; these have no Also of their own
}

// String returns the place as an entry of a device list: "cuda:0=1073741824@2|cuda:1".
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

// ListError reports a device list that can't be parsed. The error for a device that does
// not exist is of another type.
type ListError struct {
	Entry  string // the part of the list that is wrong
	Reason string // what is wrong with it, in words for the user
}

// Error implements error.
func (e *ListError) Error() string {
	return fmt.Sprintf("device list entry %q: %s", e.Entry, e.Reason)
}

// ParseList parses a device list without looking for the devices. The list has entries
// separated by commas. Each is a name (cuda:0, cpu, cpu:0-3, cpu/2, auto), followed by an
// optional budget, =SIZE or =P%, and an optional relative speed, @X, in either order. The
// same name may be in several entries; each entry is a place of its own. An entry A|B is
// one place with a replica on each device. Any error is a *ListError.
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

// Resolve parses a device list as ParseList does and returns the places that it names, in
// forward order, without opening the devices. Each device that an entry's name stands for
// gets the entry's budget and speed: cpu/4=1GiB is four places of 1 GiB each. A percentage
// is of the memory that is free at the time of the call.
//
// The devices of an entry A|B must be of one kind and, if they are CPUs, of one SIMD
// level, because results are bit-identical only within a kind and a level. If the entry
// has the same device twice, two replicas share the device, each with its own weights.
//
// A positive threads limits the CPU threads of "cpu", "cpu/N" and "auto" in total; 0
// means no limit. A list that can't be parsed is a *ListError. If a device does not exist,
// the error is of another type and has the backend's reason.
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

// resolve returns the backend that a name belongs to, and the devices that the name stands
// for.
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
			b, err := parseBudget(value)
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

// kindOf returns the kind of device that a name begins with. The name is the kind alone, or
// the kind followed by ":" or "/" and a specification that the backend parses.
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
