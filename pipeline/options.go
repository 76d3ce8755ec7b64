package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// Option is a setting of a pipeline. [New], [NewPlan] and [Survey] take options, and so
// do the functions of package generate that make an engine.
//
// If an option is given twice, the second one replaces the first, except for
// [WithObserver]. An option that has no effect where it is given, for instance because
// another option decides the same, is an error.
type Option func(*config) error

// EngineOption marks an Option as one of those that an engine of package generate can
// be made with, too. It does nothing.
func (Option) EngineOption() {}

// option returns an Option that notes its name in the configuration and calls set.
func option(name string, set func(*config) error) Option {
	return func(c *config) error {
		c.given = append(c.given, name)
		return set(c)
	}
}

// Pack is a way to cut the layers into runs, each of which becomes a stage.
type Pack string

// The ways to cut.
const (
	FirstFit Pack = "first-fit" // fills each device in turn, in the order of the device list
	Balanced Pack = "balanced"  // makes the slowest stage as fast as possible
)

// Defaults of the options of the same names.
const (
	DefaultMaxBatch     = 512  // rows
	DefaultBacklog      = 1024 // calls
	DefaultFailureLimit = 8    // batches
)

// WithDevices places the stages on the devices of a list, in the order of the list, such
// as "cuda:0=20GiB,cpu". docs/devices.md describes the syntax. The default is "auto":
// every GPU, then the CPU. A program can use those GPUs whose backends it imports:
// package backends imports all of them.
func WithDevices(list string) Option {
	return option("WithDevices", func(c *config) error { c.devices = list; return nil })
}

// WithImagined plans for the devices of another machine. The list has the syntax of
// [WithDevices]. The budgets in it replace the devices' memory, and the speeds in it
// replace measurements. Such a plan can't be opened.
func WithImagined(list string) Option {
	return option("WithImagined", func(c *config) error { c.devices, c.imagined = list, true; return nil })
}

// WithPlacement places each layer on the device that the placement file at path names.
// Package placement describes the file.
func WithPlacement(path string) Option {
	return option("WithPlacement", func(c *config) error { c.placement = path; return nil })
}

// WithPlacementFile is [WithPlacement] for a file that has been read already.
func WithPlacementFile(f *placement.File) Option {
	return option("WithPlacementFile", func(c *config) error {
		if f == nil {
			return errors.New("pipeline.WithPlacementFile without a file")
		}
		c.placed = f
		return nil
	})
}

// WithThreads limits the number of CPU threads of devices whose names don't say which
// cores they use. 0, the default, means as many threads as there are cores.
func WithThreads(n int) Option {
	return option("WithThreads", func(c *config) error { c.threads = n; return between("threads", n, 0) })
}

// WithPack sets how layers are cut into runs. The default is [Balanced].
func WithPack(p Pack) Option {
	return option("WithPack", func(c *config) error {
		if p != FirstFit && p != Balanced {
			return fmt.Errorf("pack %q: it may be %s or %s", p, FirstFit, Balanced)
		}
		c.pack = p
		return nil
	})
}

// WithInFlight sets how many micro-batches are in flight at the same time, on each
// route if stages have replicas. 0, the default, means as many as there are stages.
func WithInFlight(n int) Option {
	return option("WithInFlight", func(c *config) error { c.inFlight = n; return between("batches in flight", n, 0) })
}

// WithQueue sets how many batches the link into each stage holds, beginning with the
// first stage. The last number given also applies to all stages after it. The default
// is 1. If a batch can go to one of several replicas, the link into each replica holds
// as many batches as may be in flight, so that a slow replica doesn't block the others.
func WithQueue(depths ...int) Option {
	return option("WithQueue", func(c *config) error {
		if len(depths) == 0 {
			return errors.New("pipeline.WithQueue without a depth")
		}
		for _, d := range depths {
			if err := between("queue depth", d, 0); err != nil {
				return err
			}
		}
		c.queue = depths
		return nil
	})
}

// WithMaxBatch sets the most rows in a micro-batch. The default is [DefaultMaxBatch].
func WithMaxBatch(rows int) Option {
	return option("WithMaxBatch", func(c *config) error { c.maxBatch = rows; return between("max batch", rows, 1) })
}

// WithCalibration measures the speed of the devices, which takes about a quarter of a
// second. It does so only if layers are to be balanced between several devices and the
// device list gives no speeds. Without this option a plan compares the devices by their
// cores and specifications.
//
// The measured speeds are kept until the process ends. If dir is not empty, they are
// also written to the file rates.json in that folder, which is made if it doesn't
// exist, and are read from there for up to 30 days. Nothing else in this module writes
// to the user's folders. If a device can't be measured, Survey, NewPlan and New return
// an error.
func WithCalibration(dir string) Option {
	return option("WithCalibration", func(c *config) error { c.calibrate, c.ratesDir = true, dir; return nil })
}

// WithReserve sets how many bytes a plan leaves free on each device. The default is
// 256 MiB of a GPU's own memory. Of the host's memory it is what the process itself is
// expected to need: its heap, its stacks, and the data of the requests.
func WithReserve(bytes int64) Option {
	return option("WithReserve", func(c *config) error {
		if bytes < 0 {
			return fmt.Errorf("a reserve of %d bytes: it may not be negative", bytes)
		}
		c.reserve = bytes
		return nil
	})
}

// WithProgress sets a function that is called whenever a layer has been loaded, with the
// bytes of weights that are loaded and the bytes of all weights. It is called from one
// goroutine at a time. Nil, the default, means no reports.
func WithProgress(report func(loaded, total int64)) Option {
	return option("WithProgress", func(c *config) error { c.progress = report; return nil })
}

// WithState says what layers with state keep between batches, and how large the headers
// of batches may be. Of the configuration it uses Pages, KV, MaxOutputs, MaxTables,
// MaxTop, Host and Expect; the other fields must be 0, because options of this package
// set them. MaxOutputs is at most the number of rows in a batch, which is also the
// default. Layers without state need no WithState.
//
// WithState is for [New] and [NewPlan]. After a [Survey], the state is an argument of
// [Site.Plan].
func WithState(s stage.Config) Option {
	return option("WithState", func(c *config) error { c.state = s; return checkState(s) })
}

// WithInput says that the first layer reads rows of width float32s, which every batch
// brings with it: the rows of [Pipeline.Do] and [Pipeline.Map]. New requires it. Without
// it the first layer reads the batch's header alone.
func WithInput(width int) Option {
	return option("WithInput", func(c *config) error { c.input = width; return between("input width", width, 1) })
}

// WithMaxWait makes a batch that isn't full wait for more rows, for at most d. The
// default is not to wait: rows are then gathered only while no batch is free.
func WithMaxWait(d time.Duration) Option {
	return option("WithMaxWait", func(c *config) error {
		if d < 0 {
			return fmt.Errorf("a max wait of %v: it may not be negative", d)
		}
		c.maxWait = d
		return nil
	})
}

// WithBacklog sets how many calls may wait to be put into a batch. If the backlog is
// full, a further call of Do blocks, and TryDo returns [ErrBusy]. The default is
// [DefaultBacklog].
func WithBacklog(calls int) Option {
	return option("WithBacklog", func(c *config) error { c.backlog = calls; return between("backlog", calls, 1) })
}

// WithAhead sets how many rows [Pipeline.Map] and [Pipeline.MapUnordered] read before
// the loop has received the results of earlier ones. An element with more rows is
// computed while there is no other. 0, the default, means as many rows as the batches in
// flight hold.
func WithAhead(rows int) Option {
	return option("WithAhead", func(c *config) error { c.ahead = rows; return between("rows ahead", rows, 0) })
}

// WithIsolation sets what happens if a batch fails that holds rows of several calls. If
// on is true, which is the default, each half of the batch is computed again, and so on,
// until only those calls fail whose rows make a layer return an error, panic or end its
// goroutine. A batch with rows of n calls leads to fewer than 2n further batches, and
// the rows of one call are computed at most 1+log2(n) times. If on is false, all calls
// with rows in the batch fail; that is for layers that must not compute a row twice.
func WithIsolation(on bool) Option {
	return option("WithIsolation", func(c *config) error { c.isolate = on; return nil })
}

// WithFailureLimit sets how many batches in a row may fail on a route before the
// pipeline sends a probe there; see [FailingError]. The default is
// [DefaultFailureLimit]. 0 means that no number of failures leads to a probe.
func WithFailureLimit(batches int) Option {
	return option("WithFailureLimit", func(c *config) error {
		c.failureLimit = batches
		return between("failure limit", batches, 0)
	})
}

// WithLogger sets a logger for what the pipeline does. Loading, starting and a recovery
// are logged at level Info, a batch that fails at Warn, a route that is failing at
// Error, and closing at Debug. Nil, the default, means no logging.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", func(c *config) error { c.log = l; return nil })
}

// WithObserver adds an observer of the pipeline's batches. It may be given several
// times: the observers are called in the order in which they were given. A nil observer
// is ignored. Without an observer, the times of fillings and releases are not measured.
func WithObserver(o Observer) Option {
	return option("WithObserver", func(c *config) error { c.observer = join(c.observer, o); return nil })
}

// limit is far above what any machine has. It keeps products of sizes below 2⁶³.
const limit = 1 << 20

// between returns an error if a number is below least or above limit.
func between(what string, n, least int) error {
	if n < least || n > limit {
		return fmt.Errorf("%s %d: it may be from %d to %d", what, n, least, limit)
	}
	return nil
}
