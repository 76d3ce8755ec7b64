package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
)

const modelName = "model"

func modelFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVarP(path, modelName, "m", "", "the model, a GGUF `FILE`")
	inputFile(flags, modelName)
}

func jsonFlag(flags *pflag.FlagSet, on *bool) {
	flags.BoolVar(on, "json", false, "print JSON")
}

// given refuses the empty path: -m FILE is needed.
func given(path string) error {
	if path == "" {
		return usage("no model: name a GGUF file with -m FILE")
	}
	return nil
}

// arguments refuses any other number of arguments than n, which are called
// names.
func arguments(n int, names string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usage("%s is missing", names)
		case len(args) > n && n == 0:
			return usage("%q: it takes no arguments, only flags", args[n])
		case len(args) > n:
			return usage("%q: it takes one %s; quote a text that has spaces", args[n], names)
		}
		return nil
	}
}

// read defines a flag whose text f understands. def is the default as help
// shows it; the value itself stands in to already.
func read[T any](flags *pflag.FlagSet, name, def, help string, to *T, f func(string) (T, error)) {
	flags.Func(name, help, func(text string) error {
		v, err := f(text)
		if err == nil {
			*to = v
			err = flags.SetAnnotation(name, textGiven, []string{text})
		}
		return err
	})
	flags.Lookup(name).DefValue = def
}

// textGiven annotates a flag that read has defined with its text.
const textGiven = "given"

// givenFlags is the flags that were given, as words of a command line, but for
// some by their names.
func givenFlags(flags *pflag.FlagSet, without ...string) (words []string) {
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(without, f.Name) {
			return
		}
		value := f.Value.String()
		if text := f.Annotations[textGiven]; text != nil {
			value = text[0]
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		}
		words = append(words, name, shellWord(value))
	})
	return words
}

// wrongFlag words what is wrong with a flag.
func wrongFlag(_ *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return usageError{err}
	}
	f := value.GetFlag()
	var number *strconv.NumError
	if err = errors.Unwrap(value); errors.As(err, &number) {
		err = errors.New("it may be " + kindOfValue(f.Value.Type()))
	}
	return usage("--%s %q: %w", f.Name, short(value.GetValue()), err)
}

// kindOfValue says what the value of a flag of a type may be.
func kindOfValue(flagType string) string {
	switch flagType {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number from 0 to 18446744073709551615"
	}
	return "a number"
}

// whole reads a whole number from least to most.
func whole(least, most int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("it may be a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// orAuto reads auto as 0.
func orAuto(number func(string) (int, error)) func(string) (int, error) {
	return func(text string) (int, error) {
		if text == "auto" {
			return 0, nil
		}
		n, err := number(text)
		if err != nil {
			err = fmt.Errorf("%w, or auto", err)
		}
		return n, err
	}
}

// list reads values separated by commas, at least one.
func list[T any](one func(string) (T, error)) func(string) ([]T, error) {
	return func(text string) ([]T, error) {
		var all []T
		for part := range strings.SplitSeq(text, ",") {
			v, err := one(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	}
}

// deviceList checks the form of a device list. Whether the devices are there is
// seen when they are used.
func deviceList(text string) (string, error) {
	_, err := device.ParseList(text)
	return text, err
}

func pack(text string) (pipeline.Pack, error) {
	switch p := pipeline.Pack(text); p {
	case pipeline.FirstFit, pipeline.Balanced:
		return p, nil
	}
	return "", fmt.Errorf("it may be %s or %s", pipeline.FirstFit, pipeline.Balanced)
}

func kvType(text string) (kernels.Type, error) {
	for _, t := range []kernels.Type{kernels.F32, kernels.F16, kernels.Q8_0} {
		if strings.EqualFold(text, t.String()) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("it may be f32, f16 or q8_0")
}

func wait(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("it may be a time such as 5ms, or 0")
	}
	return d, nil
}
