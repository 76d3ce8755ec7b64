package pipeline

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// Pack is how layers are cut into runs.
type Pack string

// The ways to cut.
const (
	FirstFit Pack = "first-fit" // fill each device in turn, never going back
	Balanced Pack = "balanced"  // least time in the slowest stage
)

// Config is what a pipeline is made for. The zero value is not useful; New and
// NewPlan start from the defaults and apply options.
type Config struct {
	Devices   string          // a device list
	Imagined  bool            // Devices are of a machine that isn't at hand: for plans only
	Placement string          // a placement file's path; instead of Devices and Pack
	Placed    *placement.File // a placement that has been read, instead of a path
	Threads   int             // most CPU threads in all; 0: as many as cores
	Pack      Pack
	InFlight  int    // micro-batches in flight on each route; 0: as many as stages
	Queue     []int  // depth of the link into each stage; the last stands for those after it
	MaxBatch  int    // most rows in a micro-batch
	Calibrate bool   // measure devices whose speed isn't given
	RatesDir  string // the folder that keeps what was measured; "": none
	Reserve   int64  // bytes to leave free on each device; negative: 256 MiB of a GPU's own memory, and of the host's what the process itself needs

	// Progress, if not nil, is told after each layer how many bytes of weights
	// are loaded and how many there are in all. It is called from one goroutine
	// at a time.
	Progress func(loaded, total int64)

	// Input is how many numbers a row has that the first layer reads; 0 where it
	// reads the header of a batch alone. A Pipeline's rows are of this width.
	Input int

	MaxWait      time.Duration // how long a batch that isn't full waits for more rows
	Backlog      int           // calls that wait for their turn
	Ahead        int           // rows that Map reads ahead of its loop; 0: what fills the batches in flight
	Isolate      bool          // a batch that failed is tried again in halves; see WithIsolation
	FailureLimit int           // batches that fail one after the other until the pipeline is failing; 0: no limit

	Logger   *slog.Logger // nil: nothing is logged
	Observer Observer     // told of every batch, if not nil

	// State is what a model's layers keep between batches, and how large the
	// header of a batch may be: Pages, KV, MaxOutputs, MaxTables, MaxTop, Host and
	// Expect are taken from it. For layers without state the zero value is right.
	State stage.Config
}

// Option changes a Config.
type Option func(*Config) error

// DefaultMaxBatch is the most rows in a micro-batch where nothing else is asked.
const DefaultMaxBatch = 512

func newConfig(options []Option) (Config, error) {
	c := Config{
		Devices: "auto", Pack: Balanced, Queue: []int{1}, MaxBatch: DefaultMaxBatch, Reserve: -1,
		Backlog: DefaultBacklog, FailureLimit: DefaultFailureLimit, Isolate: true,
	}
	for _, o := range options {
		if err := o(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// stage returns what the stages are loaded for, of which there are n, with so many
// routes through them.
func (c Config) stage(n, routes int) (stage.Config, error) {
	s := c.State
	s.MaxRows, s.Input = c.MaxBatch, c.Input
	if s.MaxOutputs == 0 || s.MaxOutputs > s.MaxRows {
		s.MaxOutputs = s.MaxRows
	}
	s.Expect = max(1, s.Expect)
	if s.InFlight = c.InFlight; s.InFlight == 0 {
		s.InFlight = n
	}
	if s.InFlight > limit/routes {
		return s, fmt.Errorf("%d batches in flight on each of %d routes: they may be %d in all", s.InFlight, routes, limit)
	}
	s.InFlight *= routes
	return s, nil
}

func (c Config) depth(stage int) int { return c.Queue[min(stage, len(c.Queue)-1)] }

// WithDevices places the stages on a device list, in forward order, such as
// "cuda:0=20GiB,cpu". docs/devices.md has its syntax. The default is "auto": every
// GPU, then the CPU. The program has those GPUs whose backends it imports: package
// backends brings all of them.
func WithDevices(list string) Option {
	return func(c *Config) error { c.Devices = list; return nil }
}

// WithImagined plans for a device list of a machine that isn't at hand: budgets
// stand for its memory, speeds for what would be measured. Such a plan can't be
// started.
func WithImagined(list string) Option {
	return func(c *Config) error { c.Devices, c.Imagined = list, true; return nil }
}

// WithPlacement places the layers as a file says, in place of a device list and
// of packing; see package placement for what it holds.
func WithPlacement(path string) Option {
	return func(c *Config) error { c.Placement = path; return nil }
}

// WithPlacementFile places the layers as a placement says that has been read already;
// see WithPlacement.
func WithPlacementFile(f *placement.File) Option {
	return func(c *Config) error { c.Placed = f; return nil }
}

// WithThreads limits the CPU threads that devices without core numbers use.
func WithThreads(n int) Option {
	return func(c *Config) error { c.Threads = n; return positive("threads", n, 0) }
}

// WithPack sets how layers are cut into runs. The default is Balanced.
func WithPack(p Pack) Option {
	return func(c *Config) error {
		if p != FirstFit && p != Balanced {
			return fmt.Errorf("pack %q: it may be %s or %s", p, FirstFit, Balanced)
		}
		c.Pack = p
		return nil
	}
}

// WithInFlight sets how many micro-batches are in flight, on each route where
// stages have replicas; 0, the default, means as many as there are stages.
func WithInFlight(n int) Option {
	return func(c *Config) error { c.InFlight = n; return positive("batches in flight", n, 0) }
}

// WithQueue sets the depth of the link into each stage; the last one given
// stands for the stages after it. The default is 1. Where there are replicas to
// choose from, the link into each holds all batches, so that none of them holds up
// the others.
func WithQueue(depths ...int) Option {
	return func(c *Config) error {
		if len(depths) == 0 {
			return fmt.Errorf("queue: no depth given")
		}
		for _, d := range depths {
			if err := positive("queue depth", d, 0); err != nil {
				return err
			}
		}
		c.Queue = depths
		return nil
	}
}

// WithMaxBatch sets the most rows in a micro-batch.
func WithMaxBatch(rows int) Option {
	return func(c *Config) error { c.MaxBatch = rows; return positive("max batch", rows, 1) }
}

// WithCalibration has the speed of devices measured, for about a quarter of a second,
// where layers are to be balanced between several devices and the device list doesn't
// give their speeds. Without it the devices' cores and specifications are compared.
//
// What was measured is kept for the process. If dir is not empty, it is also kept in
// the file rates.json of that folder, which is made if need be, and read from there
// for up to 30 days. Nothing else in Leat writes to the user's folders. A device that
// can't be measured is an error of Survey, NewPlan and New.
func WithCalibration(dir string) Option {
	return func(c *Config) error { c.Calibrate, c.RatesDir = true, dir; return nil }
}

// WithReserve leaves bytes free on each device. The default is 256 MiB of a GPU's own
// memory, and of the host's what the process itself is expected to need: its heap,
// its stacks, and what the requests take.
func WithReserve(bytes int64) Option {
	return func(c *Config) error {
		if bytes < 0 {
			return fmt.Errorf("a reserve of %d bytes", bytes)
		}
		c.Reserve = bytes
		return nil
	}
}

// WithProgress has loading reported; see Config.Progress.
func WithProgress(report func(loaded, total int64)) Option {
	return func(c *Config) error { c.Progress = report; return nil }
}

// WithState gives what the layers keep between batches; see Config.State.
func WithState(s stage.Config) Option {
	return func(c *Config) error { c.State = s; return nil }
}

// limit is far above what any machine has, and keeps products of sizes within
// 63 bits.
const limit = 1 << 20

func positive(what string, n, least int) error {
	if n < least || n > limit {
		return fmt.Errorf("%s %d: it may be from %d to %d", what, n, least, limit)
	}
	return nil
}
