package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/placement"
)

// pipelineFlags say what an engine is made of. They are the same for every
// command that plans or starts one.
type pipelineFlags struct {
	command *cobra.Command  // nil: of no command line
	placed  *placement.File // what --placement names, once it is read

	devices   string
	placement string
	pack      pipeline.Pack
	inFlight  int   // 0: auto
	queue     []int // depths of the links
	maxBatch  int   // 0: auto
	maxWait   time.Duration
	maxSeqs   int
	context   int // 0: the model's, at most 4096
	kv        kernels.Type
	kvMemory  int64 // negative: what is left
	reserve   int64 // negative: by kind of device
	threads   int   // 0: all cores
	trace     string
}

// add defines the flags. maxSeqs is the command's default for --max-seqs.
func (f *pipelineFlags) add(c *cobra.Command, maxSeqs int) {
	flags := c.Flags()
	*f = pipelineFlags{
		command:  c,
		devices:  device.Auto,
		pack:     pipeline.Balanced,
		queue:    []int{1},
		maxSeqs:  maxSeqs,
		kv:       kernels.F16,
		kvMemory: -1,
		reserve:  -1,
	}
	read(flags, "devices", device.Auto, "devices in forward order, `LIST`: cpu, cpu:0-3, cuda:0=20GiB@3, …; cpu/N makes N of all cores; A|B is one stage on both; auto: every GPU, then the CPU", &f.devices, deviceList)
	flags.StringVar(&f.placement, "placement", "", "place each layer as `FILE` says (JSON); -: standard input; not together with --devices or --pack")
	inputFile(flags, "placement")
	read(flags, "pack", string(pipeline.Balanced), "`HOW` layers are cut into runs: first-fit or balanced", &f.pack, pack)
	read(flags, "inflight", "auto", "micro-batches in flight, `N` or auto: as many as stages", &f.inFlight, orAuto(whole(1, 1<<16)))
	read(flags, "queue", "1", "depth of the link into each stage, `N` or N,N,…; the last stands for those after it", &f.queue, list(whole(0, 1<<16)))
	read(flags, "max-batch", "auto", fmt.Sprintf("most rows in one micro-batch, `N` or auto: %d", pipeline.DefaultMaxBatch), &f.maxBatch, orAuto(whole(1, 1<<16)))
	read(flags, "max-wait", "0", "`TIME` that a micro-batch waits for more rows, such as 5ms", &f.maxWait, wait)
	read(flags, "max-seqs", strconv.Itoa(maxSeqs), "`N` sequences running at once", &f.maxSeqs, whole(1, 1<<16))
	read(flags, "ctx", "", "longest sequence, `N` tokens (default: the model's, at most 4096)", &f.context, whole(1, 1<<24))
	read(flags, "kv", "f16", "`TYPE` of the key/value cache: f32, f16 or q8_0", &f.kv, kvType)
	read(flags, "kv-memory", "", "memory for key/value pages in all, `SIZE` (default: what is left, at most what all sequences need)", &f.kvMemory, device.ParseSize)
	read(flags, "reserve", "", "`SIZE` of memory to leave free on each device (default: 256MiB on a GPU, 0 on the CPU)", &f.reserve, device.ParseSize)
	read(flags, "threads", "", "CPU threads in all, `N` (default: as many as cores)", &f.threads, whole(1, 1<<16))
	flags.StringVar(&f.trace, "trace", "", "write what each stage does to `FILE`, a Chrome trace that https://ui.perfetto.dev opens")
	outputFile(flags, "trace")
}

// check says which flags don't go together.
func (f *pipelineFlags) check() error {
	for _, other := range []string{"devices", "pack"} {
		if f.placement != "" && f.command != nil && f.command.Flags().Changed(other) {
			return usage("--placement and --%s exclude each other: the file says where each layer goes", other)
		}
	}
	if f.trace == files.Standard {
		return usage("--trace -: a trace goes to a file, which https://ui.perfetto.dev opens")
	}
	return nil
}

// stdin is the command's standard input.
func (f *pipelineFlags) stdin() io.Reader {
	if f.command == nil {
		return strings.NewReader("")
	}
	return f.command.InOrStdin()
}

// options are the flags as an engine takes them.
func (f *pipelineFlags) options(more ...pipeline.Option) []generate.Option {
	p := append(more,
		pipeline.WithDevices(f.devices),
		pipeline.WithPlacementFile(f.placed),
		pipeline.WithPack(f.pack),
		pipeline.WithInFlight(f.inFlight),
		pipeline.WithQueue(f.queue...),
		pipeline.WithThreads(f.threads),
	)
	if f.maxBatch > 0 {
		p = append(p, pipeline.WithMaxBatch(f.maxBatch))
	}
	if f.reserve >= 0 {
		p = append(p, pipeline.WithReserve(f.reserve))
	}
	options := []generate.Option{
		generate.WithPipeline(p...),
		generate.WithMaxSeqs(f.maxSeqs),
		generate.WithMaxWait(f.maxWait),
		generate.WithKV(f.kv),
	}
	if f.context > 0 {
		options = append(options, generate.WithContext(f.context))
	}
	if f.kvMemory >= 0 {
		options = append(options, generate.WithKVMemory(f.kvMemory))
	}
	return options
}

// generationFlags say how a text is continued.
type generationFlags struct {
	maxTokens int
	sampling  generate.Sampling
	stop      []string
	raw       bool
}

// add defines the flags. The seed is drawn here, so that it can be told.
func (f *generationFlags) add(flags *pflag.FlagSet) {
	f.sampling.Seed = uint64(rand.Uint32())
	flags.IntVarP(&f.maxTokens, "max-tokens", "n", 128, "most tokens to add, `N`")
	s := &f.sampling
	flags.Float64Var(&s.Temperature, "temp", 0.8, "temperature `T`: 0 takes the most likely token, more is freer")
	flags.IntVar(&s.TopK, "top-k", 40, "draw from the `K` most likely tokens; 0: all")
	flags.Float64Var(&s.TopP, "top-p", 0.95, "draw from the most likely tokens that together reach `P`; 1: all")
	flags.Float64Var(&s.MinP, "min-p", 0.05, "draw from tokens at least `P` times as likely as the first; 0: all")
	flags.Float64Var(&s.RepeatPenalty, "repeat-penalty", 1, "above 1: makes the last 64 tokens less likely, by `X`")
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "the same `N` gives the same text")
	flags.Lookup("seed").DefValue = "random"
	flags.StringArrayVar(&f.stop, "stop", nil, "end before `TEXT`; may be given several times")
	flags.BoolVar(&f.raw, "raw", false, "no chat template: the prompt as it is (always so for a model without one)")
}

// request is the flags as a request for an engine. Values that make no sense
// are wrong usage.
func (f *generationFlags) request() (generate.Request, error) {
	if f.maxTokens < 1 {
		return generate.Request{}, usage("-n %d: it may be 1 or more", f.maxTokens)
	}
	if err := f.sampling.Check(); err != nil {
		return generate.Request{}, usageError{err}
	}
	for _, text := range f.stop {
		if text == "" {
			return generate.Request{}, usage("an empty --stop text would stop at once: leave it out")
		}
	}
	return generate.Request{MaxTokens: f.maxTokens, Stop: f.stop, Sampling: f.sampling}, nil
}

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
	var number *strconv.NumError
	if err = errors.Unwrap(value); errors.As(err, &number) {
		err = errors.New("it is not a number that can stand here")
	}
	return usage("--%s %q: %w", value.GetFlag().Name, value.GetValue(), err)
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
