package calibrate

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leat-dev/leat/device"
)

const (
	fileName    = "rates.json"
	mostRecords = 256     // in the file; the newest are kept
	mostBytes   = 1 << 20 // larger files are ignored
	mostAge     = 30 * 24 * time.Hour
)

// record is the measured rates of one device with one build. The rates are as in device.Rates.
type record struct {
	key
	Memory   float64   `json:"memory"`
	Float    float64   `json:"float"`
	Integer  float64   `json:"integer"`
	Measured time.Time `json:"measured"`
}

// file is the contents of the file.
type file struct {
	Rates []record `json:"rates"` // newest first
}

func (r record) rates() device.Rates {
	return device.Rates{Memory: r.Memory, Float: r.Float, Integer: r.Integer}
}

// valid reports whether the record is complete and not too old. Records expire because the
// measurement may have been disturbed, and the machine may have changed since.
func (r record) valid(now time.Time) bool {
	if age := now.Sub(r.Measured); age > mostAge || age < -mostAge {
		return false
	}
	for _, v := range []float64{r.Memory, r.Float, r.Integer} {
		if !(v > 0) || math.IsInf(v, 0) {
			return false
		}
	}
	return r.Device != "" && r.Build != ""
}

// path returns the path of the cache's file, or "" if it has none.
func (c *cache) path() string {
	if c.dir == "" {
		return ""
	}
	return filepath.Join(c.dir, fileName)
}

// readFile returns the valid records of a file. It returns none if the file can't be read or
// parsed.
func readFile(path string, now time.Time) []record {
	// Check first, because opening a pipe waits for its other end.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil || len(data) > mostBytes {
		return nil
	}
	var all file
	if err := json.Unmarshal(data, &all); err != nil {
		return nil
	}
	return slices.DeleteFunc(all.Rates, func(r record) bool { return !r.valid(now) })
}

// writeFile adds rates to the file. It replaces the file atomically, so that a concurrent reader
// sees the old or the new contents. If two processes write at the same time, the records of one
// may be lost, and will be measured again.
func writeFile(path string, fresh map[key]device.Rates, now time.Time) (err error) {
	if path == "" {
		return errors.New("no folder for the user's cache")
	}
	var all file
	for k, r := range fresh {
		all.Rates = append(all.Rates, record{k, r.Memory, r.Float, r.Integer, now.UTC()})
	}
	for _, r := range readFile(path, now) {
		if _, replaced := fresh[r.key]; !replaced {
			all.Rates = append(all.Rates, r)
		}
	}
	all.Rates = all.Rates[:min(len(all.Rates), mostRecords)]
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, fileName+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
