// Package calibrate measures how fast devices are, so that the packer can cut a
// model by what they really do.
//
// [Measure] times a few products on one device. [Cache] does that once for each
// kind of device, and remembers the rates in a file of the user's cache folder.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/leat-dev/leat/device"
)

// Variable is the environment variable that turns calibration off where it is
// "off": nothing is measured or looked up, and a plan is the same on every run.
const Variable = "LEAT_RATES"

// Budget is about how long a measurement takes, at most: of one device, or of
// all the CPU devices of a list together.
const Budget = 250 * time.Millisecond

// Load fills in the rates of devices from the user's own cache, which all of the
// process shares; see [Cache.Load].
func Load(ctx context.Context, infos []device.Info) ([]device.Info, error) {
	return users.Load(ctx, infos)
}

var users Cache

// Cache remembers rates: in memory, and in the file rates.json of a folder. The
// file can be deleted at any time, to have everything measured again, as it is
// after 30 days in any case. The zero Cache is ready. Its methods may be called from any goroutine.
type Cache struct {
	// Dir is the folder; if empty, leat in os.UserCacheDir. It is made when
	// there is something to write.
	Dir string

	mu      sync.Mutex // held while measuring: two at once would slow each other
	known   map[key]device.Rates
	measure func(context.Context, string, time.Duration) (device.Rates, error) // if nil, measureNamed
}

// Load returns a copy of infos with the rates filled in, or infos themselves
// where LEAT_RATES=off. What neither the cache
// nor its file knows is measured, on a device opened for that and closed again;
// so the first call for a device takes about Budget.
//
// CPU devices of one machine that run the same number of threads are measured
// once, on the first of them, and get the same rates: equal groups of cores get
// equal shares of a model, and "cpu/16" takes no longer than "cpu". What that
// misses, such as cores of two sorts in one CPU, a device list can say with @X.
//
// A cache that can't be read or written costs time, never an error. An error
// means that a device can't be opened or can't compute, or that ctx ended; then
// infos come back as they were, since rates of some devices can't be compared
// with guesses at others.
func (c *Cache) Load(ctx context.Context, infos []device.Info) ([]device.Info, error) {
	switch v := os.Getenv(Variable); v {
	case "":
	case "off":
		return infos, nil
	default:
		return infos, fmt.Errorf(`%s=%s: it may be "off", or not set`, Variable, v)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
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

// learn sees to it that all keys are known.
func (c *Cache) learn(ctx context.Context, infos []device.Info, keys []key) error {
	if c.known == nil {
		c.known = map[key]device.Rates{}
	}
	if len(c.missing(keys)) == 0 {
		return nil
	}
	path := c.path()
	for _, r := range readFile(path, time.Now()) {
		if _, ok := c.known[r.key]; !ok {
			c.known[r.key] = r.rates()
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
			failed = fmt.Errorf("measuring the speed of %s: %w (%s=off does without)", infos[i].Name, err, Variable)
			break
		}
		fresh[keys[i]] = rates
	}
	maps.Copy(c.known, fresh)
	if len(fresh) > 0 {
		// What can't be written is still known to this process.
		_ = writeFile(path, fresh, time.Now())
	}
	return failed
}

// missing returns the places of keys that aren't known, the first of each.
func (c *Cache) missing(keys []key) []int {
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
