package device

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rack is a backend of numbered devices that exist in name only: kind:0 up to
// kind:n-1, and kind for all of them in one device with the number of threads.
type rack struct {
	kind    Kind
	n       int
	opened  []string
	simd    []string // of each device
	refused error
}

func (r *rack) Kind() Kind { return r.kind }

func (r *rack) Discover() ([]Info, error) {
	var infos []Info
	for i := range r.n {
		infos = append(infos, r.info(i))
	}
	return infos, r.refused
}

func (r *rack) info(i int) Info {
	info := Info{Name: fmt.Sprintf("%s:%d", r.kind, i), Kind: r.kind, Free: int64(1000 * (i + 1))}
	if r.simd != nil {
		info.SIMD = r.simd[i]
	}
	return info
}

func (r *rack) Resolve(name string, threads int) ([]Info, error) {
	if name == "cpu" {
		return []Info{{Name: fmt.Sprintf("cpu:all of %d", threads), Kind: CPU, Free: 500}}, nil
	}
	if strings.HasPrefix(name, "cpu/") || name == r.kind.String() {
		return r.Discover()
	}
	i, err := strconv.Atoi(strings.TrimPrefix(name, r.kind.String()+":"))
	switch {
	case err != nil:
		return nil, &ListError{name, "not a number"}
	case i >= r.n:
		return nil, fmt.Errorf("there are only %d", r.n)
	}
	return []Info{r.info(i)}, nil
}

func (r *rack) Open(name string) (Device, error) {
	if r.refused != nil {
		return nil, r.refused
	}
	r.opened = append(r.opened, name)
	return &slot{rack: r, name: name}, nil
}

var (
	cpus  = &rack{kind: CPU, n: 2}
	cudas = &rack{kind: CUDA, n: 2}
	rocms = &rack{kind: ROCm, refused: Unavailable{ROCm, "libamdhip64.so: not found"}}
)

func TestMain(m *testing.M) {
	for _, r := range []*rack{cpus, cudas, rocms} {
		Register(r)
	}
	os.Exit(m.Run())
}

func TestParseList(t *testing.T) {
	size := func(s string) Budget {
		b, err := parseBudget(s)
		require.NoError(t, err)
		return b
	}
	for list, want := range map[string][]Choice{
		"auto":                          {{Name: "auto"}},
		"cpu":                           {{Name: "cpu"}},
		"cpu,cpu":                       {{Name: "cpu"}, {Name: "cpu"}},
		" cuda:0 , cpu:0-3 ":            {{Name: "cuda:0"}, {Name: "cpu:0-3"}},
		"cpu:0+2-3,metal:0":             {{Name: "cpu:0+2-3"}, {Name: "metal:0"}},
		"cuda:0=20GiB":                  {{Name: "cuda:0", Budget: size("20GiB")}},
		"cuda:0=20GiB@3":                {{Name: "cuda:0", Budget: size("20GiB"), Speed: 3}},
		"cuda:0@3=20GiB":                {{Name: "cuda:0", Budget: size("20GiB"), Speed: 3}},
		"cuda:0=80%@0.5,cpu/4=1GiB":     {{Name: "cuda:0", Budget: size("80%"), Speed: 0.5}, {Name: "cpu/4", Budget: size("1GiB")}},
		"cuda:0|cuda:1,cpu":             {{Name: "cuda:0", Also: []Choice{{Name: "cuda:1"}}}, {Name: "cpu"}},
		"cpu:0=1GiB@2 | cpu:0 | cpu@3":  {{Name: "cpu:0", Budget: size("1GiB"), Speed: 2, Also: []Choice{{Name: "cpu:0"}, {Name: "cpu", Speed: 3}}}},
		"cuda:0=0,rocm:1=600KiB,auto@2": {{Name: "cuda:0", Budget: size("0")}, {Name: "rocm:1", Budget: size("600KiB")}, {Name: "auto", Speed: 2}},
	} {
		choices, err := ParseList(list)
		require.NoError(t, err, list)
		require.Equal(t, want, choices, list)
	}
}

func TestParseListErrors(t *testing.T) {
	for list, want := range map[string]string{
		"":               `entry "": there is no name`,
		"cpu,":           `entry "": there is no name`,
		"cpu,,cpu":       `entry "": there is no name`,
		"=1GiB":          `entry "=1GiB": there is no name`,
		"tpu:0":          `there is no kind of device "tpu"`,
		"CPU":            `there is no kind of device "CPU"`,
		"cpu0":           `there is no kind of device "cpu0"`,
		"auto/2":         `there is no kind of device "auto"`,
		"cpu:":           `nothing follows the ":"`,
		"cpu/":           `nothing follows the "/"`,
		"cpu=":           "budget: \"\" is not a size: there is no number",
		"cpu=20G":        "the unit may be",
		"cpu=-1":         "it is negative",
		"cpu=120%":       "0% to 100%",
		"cpu=1=2":        "two budgets",
		"cpu=0=2":        "two budgets",
		"cpu@1@2":        "two speeds",
		"cpu@":           `the speed "" is not a number above 0`,
		"cpu@0":          `the speed "0" is not a number above 0`,
		"cpu@-1":         "not a number above 0",
		"cpu@NaN":        "not a number above 0",
		"cpu@Inf":        "not a number above 0",
		"cpu@fast":       "not a number above 0",
		"cuda:0|,cpu":    `entry "cuda:0|": there is no name`,
		"|":              `entry "|": there is no name`,
		"cpu:0|tpu:1":    `entry "cpu:0|tpu:1": there is no kind of device "tpu"`,
		"cuda:0|cpu,cpu": `entry "cuda:0|cpu": cuda:0 and cpu are of different kinds: replicas must give the same bits`,
		"cpu|auto":       `entry "cpu|auto": auto stands for any number of devices`,
		"auto|auto":      `auto stands for any number of devices`,
	} {
		for _, parse := range []func() error{
			func() error { _, err := ParseList(list); return err },
			func() error { _, err := Resolve(list, 0); return err },
		} {
			err := parse()
			require.ErrorContains(t, err, want, list)
			require.ErrorAs(t, err, new(*ListError), list)
		}
	}
}

func TestResolve(t *testing.T) {
	places, err := Resolve("cuda:1=50%@2,cpu,cuda:1=7", 3)
	require.NoError(t, err)
	require.Equal(t, []Place{
		{Info: cudas.info(1), Budget: 1000, Speed: 2},
		{Info: Info{Name: "cpu:all of 3", Kind: CPU, Free: 500}, Budget: -1},
		{Info: cudas.info(1), Budget: 7},
	}, places)

	places, err = Resolve("cpu/2=10%@4", 0)
	require.NoError(t, err)
	require.Equal(t, []Place{
		{Info: cpus.info(0), Budget: 100, Speed: 4},
		{Info: cpus.info(1), Budget: 200, Speed: 4},
	}, places, "each of the devices has the budget and the speed")
}

func TestAutoIsEveryGPUThenTheCPU(t *testing.T) {
	places, err := Resolve("auto", 0)
	require.NoError(t, err, "that there is no ROCm is no error")
	require.Equal(t, []string{"cuda:0", "cuda:1", "cpu:all of 0"}, names(places))
}

func names(places []Place) []string {
	var names []string
	for _, p := range places {
		names = append(names, p.Info.Name)
	}
	return names
}

func TestAMissingDeviceIsNoListError(t *testing.T) {
	for list, want := range map[string]string{
		"cpu,cuda:2":  "device cuda:2: there are only 2",
		"metal:0":     "device metal:0: no metal device: Leat has no metal backend yet",
		"rocm:0=1GiB": "device rocm:0: there are only 0",
	} {
		_, err := Resolve(list, 0)
		require.EqualError(t, err, want)
		require.False(t, errors.As(err, new(*ListError)), list)
	}
	_, err := Resolve("cuda:x", 0)
	require.ErrorAs(t, err, new(*ListError), "a backend's own syntax is syntax too")
	require.EqualError(t, err, `device list entry "cuda:x": not a number`)
}

func FuzzParseList(f *testing.F) {
	for _, s := range []string{"auto", "cuda:0=20GiB@3,cpu", "cpu/4=80%", "a|b", "cpu:0+2-3@=", ",,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		choices, err := ParseList(list)
		if err != nil {
			require.ErrorAs(t, err, new(*ListError))
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Len(t, choices, strings.Count(list, ",")+1)
		for _, c := range choices {
			require.GreaterOrEqual(t, c.Speed, 0.0)
			for _, part := range append([]Choice{c}, c.Also...) {
				require.NotContains(t, part.Name, "|")
			}
		}
	})
}
