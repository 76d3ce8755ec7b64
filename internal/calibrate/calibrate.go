// Package calibrate measures how fast devices are, so that the packer can cut a
// model by what they really do.
//
// [Measure] times a few products on one device. [Load] does that once for each kind
// of device, and can keep the rates in a file of a folder. The package decides
// neither whether to measure nor where to keep anything: its caller does.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leat-dev/leat/device"
)

// Budget is about the longest time that a measurement takes: of one device, or of
// all the CPU devices of a list together.
const Budget = 250 * time.Millisecond

// ErrMeasuring is wrapped by the errors of Load that come of measuring a device.
var ErrMeasuring = errors.New("measuring the speed")

// Load returns a copy of infos with the rates filled in. What neither the process
// nor the file rates.json in the folder dir knows is measured, on a device that is
// opened for that and closed again, so that the first call for a device takes about
// Budget. If dir is empty, no file is read or written. The folder is made when there
// is something to write, and the file may be deleted at any time; its records expire
// after 30 days.
//
// CPU devices of one machine that run the same number of threads are measured
// once, on the first of them, and get the same rates, so that equal groups of cores
// get equal parts of a model, and "cpu/16" takes no longer than "cpu". This ignores
// differences such as those of cores of two sorts in one CPU, which a device list can
// give with @X.
//
// A file that can't be read or written costs time and is never an error. An error
// means that a device can't be opened or can't compute, or that ctx ended, also
// while another caller measures; then infos are returned as they were, since rates
// of some devices can't be compared with guesses at others.
func Load(ctx context.Context, dir string, infos []device.Info) ([]device.Info, error) {
	if err := turn.Acquire(ctx, 1); err != nil {
		return infos, err
	}
	defer turn.Release(1)
	c := caches[dir]
	if c == nil {
		c = &cache{dir: dir}
		caches[dir] = c
	}
	return c.load(ctx, infos)
}

// turn is held while devices are measured, since two measurements at once would slow
// each other. It guards caches, which are by folder, and all that they hold.
var (
	turn   = semaphore.NewWeighted(1)
	caches = map[string]*cache{}
)

// cache remembers rates, in memory and in the file of a folder.
type cache struct {
	dir     string // empty: there is no file
	known   map[key]device.Rates
	measure func(context.Context, string, time.Duration) (device.Rates, error) // nil: measureNamed
}

func (c *cache) load(ctx context.Context, infos []device.Info) ([]device.Info, error) {
	keys := make([]key, len(infos))
	for i, info := range infos {
		keys[i] = key{identity(info), build()}
	}
	if err := c.learn(ctx, infos, keys); err != nil {
		return infos, err
	}
	filled := slices.Clone(infos)
	for i := range filled {
		filled[i].Rates = c.known[keys[i]]
	}
	return filled, nil
}

// learn makes all keys known.
func (c *cache) learn(ctx context.Context, infos []device.Info, keys []key) error {
	if c.known == nil {
		c.known = map[key]device.Rates{}
	}
	if len(c.missing(keys)) == 0 {
		return nil
	}
	path := c.path()
	if path != "" {
		for _, r := range readFile(path, time.Now()) {
			if _, ok := c.known[r.key]; !ok {
				c.known[r.key] = r.rates()
			}
		}
	}
	missing := c.missing(keys)
	cpus := 0
	for _, i := range missing {
		if infos[i].Kind == device.CPU {
			cpus++
		}
	}
	measure := c.measure
	if measure == nil {
		measure = measureNamed
	}
	fresh := map[key]device.Rates{}
	var failed error
	for _, i := range missing {
		budget := Budget
		if infos[i].Kind == device.CPU {
			budget /= time.Duration(cpus)
		}
		rates, err := measure(ctx, infos[i].Name, budget)
		if err != nil {
			failed = fmt.Errorf("%w of %s: %w", ErrMeasuring, infos[i].Name, err)
			break
		}
		fresh[keys[i]] = rates
	}
	maps.Copy(c.known, fresh)
	if len(fresh) > 0 && path != "" {
		// What can't be written is still known to this process.
		_ = writeFile(path, fresh, time.Now())
	}
	return failed
}

// missing returns the indices of keys that aren't known, the first of each.
func (c *cache) missing(keys []key) []int {
	var missing []int
	for i, k := range keys {
		if _, known := c.known[k]; !known && slices.Index(keys, k) == i {
			missing = append(missing, i)
		}
	}
	return missing
}

// measureNamed measures the device of that name.
func measureNamed(ctx context.Context, name string, budget time.Duration) (_ device.Rates, err error) {
	var set device.Set
	defer func() { err = errors.Join(err, set.Close()) }()
	d, err := set.Open(name)
	if err != nil {
		return device.Rates{}, err
	}
	return measure(ctx, d, time.Now, budget)
}
