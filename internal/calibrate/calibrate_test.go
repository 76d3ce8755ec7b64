package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
)

// meter stands for Measure: it gives the rates that it is told, and remembers
// what was asked.
type meter struct {
	mu    sync.Mutex
	asked []string
	took  []time.Duration
	err   map[string]error
}

func (m *meter) measure(ctx context.Context, name string, budget time.Duration) (device.Rates, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, name)
	m.took = append(m.took, budget)
	if err := m.err[name]; err != nil {
		return device.Rates{}, err
	}
	return ratesOf(name), ctx.Err()
}

// ratesOf is different for each name.
func ratesOf(name string) device.Rates {
	v := 1e9
	for _, c := range name {
		v = v*1.01 + float64(c)
	}
	return device.Rates{Memory: v, Float: 2 * v, Integer: 3 * v}
}

// cacheIn is a cache as a new process has it.
func cacheIn(dir string) (*cache, *meter) {
	m := &meter{}
	return &cache{dir: dir, measure: m.measure}, m
}

func cpuOf(cores ...int) device.Info {
	return device.Info{Name: fmt.Sprintf("cpu:%d", cores[0]), Kind: device.CPU, Description: "a CPU", Memory: 1 << 30, Cores: cores, SIMD: "avx2"}
}

func gpuOf(n int) device.Info {
	return device.Info{Name: fmt.Sprintf("cuda:%d", n), Kind: device.CUDA, Description: "a GPU", Memory: 80 << 30}
}

func load(t *testing.T, c *cache, infos ...device.Info) []device.Info {
	t.Helper()
	filled, err := c.load(t.Context(), infos)
	require.NoError(t, err)
	require.Len(t, filled, len(infos))
	return filled
}

// contents returns the file of a folder, which must hold nothing else.
func contents(t *testing.T, dir string) file {
	t.Helper()
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1, "no temporary file is left")
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	require.NoError(t, err)
	var f file
	require.NoError(t, json.Unmarshal(data, &f))
	return f
}

func TestLoadMeasuresOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	c, m := cacheIn(dir)
	infos := []device.Info{gpuOf(0), cpuOf(0), gpuOf(0)}
	filled := load(t, c, infos...)
	require.Equal(t, ratesOf("cuda:0"), filled[0].Rates)
	require.Equal(t, ratesOf("cpu:0"), filled[1].Rates)
	require.Equal(t, filled[0], filled[2])
	require.Zero(t, infos[0].Rates, "what was given is not changed")
	filled[1].Rates = device.Rates{}
	require.Equal(t, infos[1], filled[1], "nothing else is")
	require.Equal(t, []string{"cuda:0", "cpu:0"}, m.asked)

	require.Equal(t, ratesOf("cuda:0"), load(t, c, infos...)[2].Rates)
	require.Len(t, m.asked, 2, "the process knows")

	next, m := cacheIn(dir)
	require.Equal(t, ratesOf("cuda:0"), load(t, next, infos...)[0].Rates)
	require.Empty(t, m.asked, "the next process finds the file")
	require.Len(t, contents(t, dir).Rates, 2)
}

func TestLoadMeasuresWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	c, _ := cacheIn(dir)
	load(t, c, cpuOf(0))

	next, m := cacheIn(dir)
	filled := load(t, next, gpuOf(0), cpuOf(0), gpuOf(1))
	require.Equal(t, []string{"cuda:0", "cuda:1"}, m.asked)
	for _, f := range filled {
		require.Equal(t, ratesOf(f.Name), f.Rates)
	}
	require.Len(t, contents(t, dir).Rates, 3, "what was there stays")
}

// CPU devices of as many threads are measured once, and all CPU devices of a
// list share one budget.
func TestLoadSharesBetweenCPUs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	c, m := cacheIn(t.TempDir())
	filled := load(t, c, cpuOf(0), cpuOf(1), gpuOf(0), cpuOf(2, 3), cpuOf(4), cpuOf(5, 6))
	require.Equal(t, []string{"cpu:0", "cuda:0", "cpu:2"}, m.asked)
	require.Equal(t, []time.Duration{Budget / 2, Budget, Budget / 2}, m.took)
	for i, as := range []string{"cpu:0", "cpu:0", "cuda:0", "cpu:2", "cpu:0", "cpu:2"} {
		require.Equal(t, ratesOf(as), filled[i].Rates, "device %d", i)
	}

	load(t, c, cpuOf(7), cpuOf(8, 9))
	require.Len(t, m.asked, 3)
	weaker := cpuOf(1)
	weaker.SIMD = "portable"
	load(t, c, weaker)
	require.Len(t, m.asked, 4, "another SIMD level is another device")
	require.Equal(t, Budget, m.took[3], "what is known takes no share of the budget")
}

func TestThreadsBeyondGOMAXPROCSDontCount(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	require.NotEqual(t, identity(cpuOf(0)), identity(cpuOf(0, 1)))
	require.Equal(t, identity(cpuOf(0, 1)), identity(cpuOf(0, 1, 2)))
}

func TestLoadWithABrokenFile(t *testing.T) {
	k := fmt.Sprintf(`"device":%q,"build":%q`, identity(gpuOf(0)), build())
	now := time.Now().UTC().Format(time.RFC3339)
	old := time.Now().Add(-2 * mostAge).UTC().Format(time.RFC3339)
	good := `{"rates":[{` + k + `,"memory":1,"float":2,"integer":3,"measured":"` + now + `"}]}`
	for name, c := range map[string]struct {
		text string
		hit  bool
	}{
		"good":           {good, true},
		"empty":          {"", false},
		"cut short":      {good[:len(good)-9], false},
		"no JSON":        {"rates", false},
		"another shape":  {`[1]`, false},
		"nothing":        {`null`, false},
		"zero":           {strings.Replace(good, `"float":2`, `"float":0`, 1), false},
		"negative":       {strings.Replace(good, `"float":2`, `"float":-1`, 1), false},
		"missing":        {strings.Replace(good, `"float":2,`, ``, 1), false},
		"text":           {strings.Replace(good, `"float":2`, `"float":"2"`, 1), false},
		"beyond range":   {strings.Replace(good, `"float":2`, `"float":1e999`, 1), false},
		"old":            {strings.Replace(good, now, old, 1), false},
		"another build":  {strings.Replace(good, runtime.Version(), "go1.1", 1), false},
		"another device": {strings.Replace(good, "a GPU", "an older GPU", 1), false},
		"too large":      {good + strings.Repeat(" ", mostBytes), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o644))
			cache, m := cacheIn(dir)
			got := load(t, cache, gpuOf(0))[0].Rates
			if c.hit {
				require.Empty(t, m.asked)
				require.Equal(t, device.Rates{Memory: 1, Float: 2, Integer: 3}, got)
				return
			}
			require.Len(t, m.asked, 1)
			require.Equal(t, ratesOf("cuda:0"), got)
			next, m := cacheIn(dir)
			require.Equal(t, got, load(t, next, gpuOf(0))[0].Rates)
			require.Empty(t, m.asked, "the file is whole again")
		})
	}
}

func TestLoadWithoutAPlaceForTheFile(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "a file")
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o644))
	isFolder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(isFolder, fileName, "x"), 0o755))
	for name, dir := range map[string]string{"folder is a file": inTheWay, "file is a folder": isFolder} {
		c, m := cacheIn(dir)
		require.Equal(t, ratesOf("cuda:0"), load(t, c, gpuOf(0))[0].Rates, name)
		load(t, c, gpuOf(0))
		require.Len(t, m.asked, 1, "%s: the process knows all the same", name)
	}
	names, err := os.ReadDir(isFolder)
	require.NoError(t, err)
	require.Len(t, names, 1, "no temporary file is left")

	c, m := cacheIn("")
	require.Equal(t, ratesOf("cuda:0"), load(t, c, gpuOf(0))[0].Rates, "no folder at all")
	load(t, c, gpuOf(0))
	require.Len(t, m.asked, 1)
	require.NoFileExists(t, fileName)
}

func TestLoadKeepsTheFileSmall(t *testing.T) {
	dir := t.TempDir()
	for i := range mostRecords + 20 {
		fresh := map[key]device.Rates{{fmt.Sprint("device ", i), "build"}: ratesOf("x")}
		require.NoError(t, writeFile(filepath.Join(dir, fileName), fresh, time.Now()))
	}
	c, _ := cacheIn(dir)
	load(t, c, gpuOf(0))
	f := contents(t, dir)
	require.Len(t, f.Rates, mostRecords)
	require.Equal(t, identity(gpuOf(0)), f.Rates[0].Device)
	require.Equal(t, "device 275", f.Rates[1].Device)
	require.Equal(t, "device 21", f.Rates[mostRecords-1].Device, "the oldest went")
}

// Many processes at once: each has a cache of its own, all one folder.
func TestLoadAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c, _ := cacheIn(dir)
			for j := range 20 {
				name := gpuOf(i*20 + j).Name
				filled, err := c.load(t.Context(), []device.Info{gpuOf(i*20 + j), cpuOf(0)})
				if err != nil || filled[0].Rates != ratesOf(name) || filled[1].Rates != ratesOf("cpu:0") {
					t.Errorf("%s: %v, %v", name, filled, err)
				}
			}
		})
	}
	all.Wait()
	f := contents(t, dir)
	require.NotEmpty(t, f.Rates)
	for _, r := range f.Rates {
		require.True(t, r.valid(time.Now()), "%v", r)
	}
}

// Within a process each device is measured once, whoever asks, and the end of a
// context ends the wait for another caller's measurement.
func TestLoadFromManyGoroutines(t *testing.T) {
	const dir = "a folder that is not made"
	m := &meter{err: map[string]error{}}
	measuring, goOn := make(chan struct{}), make(chan struct{})
	caches[dir] = &cache{known: map[key]device.Rates{}, measure: func(ctx context.Context, name string, budget time.Duration) (device.Rates, error) {
		if name == "cuda:0" {
			close(measuring)
			<-goOn
		}
		return m.measure(ctx, name, budget)
	}}
	defer delete(caches, dir)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := Load(t.Context(), dir, []device.Info{gpuOf(0), cpuOf(0)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-measuring
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := Load(ctx, "another", []device.Info{gpuOf(0)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(goOn)
	all.Wait()
	require.Len(t, m.asked, 2)
}

func TestLoadOfADeviceThatFails(t *testing.T) {
	broken := errors.New("out of order")
	dir := t.TempDir()
	c, m := cacheIn(dir)
	m.err = map[string]error{"cuda:1": broken}
	infos := []device.Info{gpuOf(0), gpuOf(1), gpuOf(2)}
	got, err := c.load(t.Context(), infos)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, ErrMeasuring)
	require.EqualError(t, err, "measuring the speed of cuda:1: out of order")
	require.Equal(t, infos, got, "either all have rates or none")
	require.Equal(t, []string{"cuda:0", "cuda:1"}, m.asked)

	m.err = nil
	load(t, c, infos...)
	require.Equal(t, []string{"cuda:0", "cuda:1", "cuda:1", "cuda:2"}, m.asked, "what was measured before it is kept")
	require.Len(t, contents(t, dir).Rates, 3)
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, _ := cacheIn(t.TempDir())
	got, err := c.load(ctx, []device.Info{gpuOf(0)})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []device.Info{gpuOf(0)}, got)
}

// The real thing, on the cores of this machine.
func TestLoadOfCPUs(t *testing.T) {
	dir := t.TempDir()
	places, err := device.Resolve("cpu,cpu/16", 0)
	require.NoError(t, err)
	var infos []device.Info
	for _, p := range places {
		infos = append(infos, p.Info)
	}
	filled, err := Load(t.Context(), dir, infos)
	require.NoError(t, err)
	for _, f := range filled {
		require.True(t, record{key{"a", "b"}, f.Rates.Memory, f.Rates.Float, f.Rates.Integer, time.Time{}}.valid(time.Time{}), "%v", f)
	}
	require.NotEmpty(t, contents(t, dir).Rates)

	missing := device.Info{Name: "cpu:4095", Kind: device.CPU, Cores: []int{4095}}
	_, err = Load(t.Context(), dir, []device.Info{missing})
	require.ErrorContains(t, err, "measuring the speed of cpu:4095: device cpu:4095: this process may not use core 4095")
}
