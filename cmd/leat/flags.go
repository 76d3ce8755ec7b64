package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
	"github.com/leat-dev/leat/pipeline/placement"
)

// pipelineFlags are the flags for devices, placement and batches. They are the same in
// every command that plans or starts an engine.
type pipelineFlags struct {
	command *cobra.Command  // nil: of no command line
	placed  *placement.File // what --placement names, once it is read

	imagined bool // devices are those of another machine

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

	noMore string // why no batch can wait for more rows; "": it can
}

// add defines the flags. maxSeqs is the command's default for --max-seqs.
func (f *pipelineFlags) add(c *cobra.Command, maxSeqs int) {
	flags := c.Flags()
	defer group(flags, "Pipeline")()
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
	read(flags, "reserve", "", "`SIZE` of memory to leave free on each device (default: 256MiB on a GPU; on the CPU what the process itself needs)", &f.reserve, device.ParseSize)
	read(flags, "threads", "", "CPU threads in all, `N` (default: as many as cores)", &f.threads, whole(1, 1<<16))
	flags.StringVar(&f.trace, "trace", "", "write what each stage does to `FILE`, a Chrome trace that https://ui.perfetto.dev opens")
	outputFile(flags, "trace")
	f.completeFlags(c)
}

// waitsForNone makes --max-wait an error in a command whose requests are all there from
// the beginning: no more rows can come, and a batch would wait in vain.
func (f *pipelineFlags) waitsForNone(why string) {
	f.noMore = why
	f.command.Flags().Lookup("max-wait").Hidden = true
}

// check says which flags don't go together, and which have no effect.
func (f *pipelineFlags) check() error {
	if f.noMore != "" && f.maxWait > 0 {
		return usage("--max-wait: %s, so a batch has nothing to wait for", f.noMore)
	}
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

// stdin returns the command's standard input.
func (f *pipelineFlags) stdin() io.Reader {
	if f.command == nil {
		return strings.NewReader("")
	}
	return f.command.InOrStdin()
}

// options returns the flags as options of an engine.
func (f *pipelineFlags) options(more ...pipeline.Option) []generate.Option {
	p := append(more, pipeline.WithInFlight(f.inFlight), pipeline.WithQueue(f.queue...))
	switch {
	case f.placed != nil:
		p = append(p, pipeline.WithPlacementFile(f.placed))
	case f.imagined:
		p = append(p, pipeline.WithImagined(f.devices), pipeline.WithPack(f.pack))
	default:
		p = append(p, pipeline.WithDevices(f.devices), pipeline.WithPack(f.pack))
	}
	if f.threads > 0 {
		p = append(p, pipeline.WithThreads(f.threads))
	}
	if f.maxBatch > 0 {
		p = append(p, pipeline.WithMaxBatch(f.maxBatch))
	}
	if f.reserve >= 0 {
		p = append(p, pipeline.WithReserve(f.reserve))
	}
	options := []generate.Option{
		generate.WithMaxSeqs(f.maxSeqs),
		pipeline.WithMaxWait(f.maxWait),
		generate.WithKV(f.kv),
	}
	for _, o := range p {
		options = append(options, o)
	}
	if f.context > 0 {
		options = append(options, generate.WithContext(f.context))
	}
	if f.kvMemory >= 0 {
		options = append(options, generate.WithKVMemory(f.kvMemory))
	}
	return options
}
