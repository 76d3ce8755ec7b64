// Package calibrate measures the speed of devices, which the packer needs to balance stages.
//
// [Measure] measures one device. [Load] measures each kind of device once, and can store the
// results in a file. The package decides neither whether to measure nor where to store results;
// its caller does.
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

// Budget is the approximate maximum time of a measurement: of one device, or of all CPU devices
// of a list together.
const Budget = 250 * time.Millisecond

// ErrMeasuring is wrapped by Load's errors from measuring a device.
var ErrMeasuring = errors.New("measuring the speed")

// Load returns a copy of infos with Rates set. Rates that neither this process nor the file
// rates.json in the folder dir has are measured, on a device that is opened for the measurement
// and closed afterwards, so that the first call for a device takes about Budget. If dir is empty,
// no file is read or written. The folder is created if there is something to write. The file may
// be deleted at any time; its records expire after 30 days.
//
// CPU devices of one machine with the same number of threads are measured once, on the first of
// them, and get the same rates. So equal groups of cores get equal parts of a model, and "cpu/16"
// takes no longer than "cpu". This ignores differences such as those between two types of cores
// in one CPU, which a device list can specify with @X.
//
// It is not an error if the file can't be read or written; the measurement is then made again. An
// error means that a device can't be opened or can't compute, or that ctx ended, even while
// another call measures. Load then returns infos unchanged, because measured rates of some devices
// can't be compared with assumed rates of others.
func Load(ctx context.Context, dir string, infos []device.Info) ([]device.Info, error) {
	if err := measuring.Acquire(ctx, 1); err != nil {
		return infos, err
	}
	defer measuring.Release(1)
	c := caches[dir]
	if c == nil {
		c = &cache{dir: dir}
		caches[dir] = c
	}
	return c.load(ctx, infos)
}

// measuring is held during Load, because two measurements at the same time would slow each other
// down. It guards caches, whose keys are folders, and their contents.
var (
	measuring = semaphore.NewWeighted(1)
	caches    = map[string]*cache{}
)

// cache has the known rates, which it stores in memory and in a file.
type cache struct {
	dir     string // the folder of the file; empty if there is no file
	known   map[key]device.Rates
	measure func(context.Context, string, time.Duration) (device.Rates, error) // nil means measureNamed
}

// load does what Load does.
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

// learn adds the rates of all keys to c.known.
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
		// Ignore an error, since this process has the rates in memory.
		_ = writeFile(path, fresh, time.Now())
	}
	return failed
}

// missing returns the indices of the keys that are not in c.known; of equal keys, only the first
// one's.
func (c *cache) missing(keys []key) []int {
	var missing []int
	for i, k := range keys {
		if _, known := c.known[k]; !known && slices.Index(keys, k) == i {
			missing = append(missing, i)
		}
	}
	return missing
}

// measureNamed measures the device with that name.
func measureNamed(ctx context.Context, name string, budget time.Duration) (_ device.Rates, err error) {
	var set device.Set
	defer func() { err = errors.Join(err, set.Close()) }()
	d, err := set.Open(name)
	if err != nil {
		return device.Rates{}, err
	}
	return measure(ctx, d, time.Now, budget)
}
