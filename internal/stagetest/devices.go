package stagetest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leat-dev/leat/device"
)

// Variable is the name of an environment variable with a device list, such as
// "cuda:0,cuda:1,cpu:0". If it is set, tests run on these devices instead of their own.
const Variable = "LEAT_TEST_DEVICES"

// Devices returns the device list on which a test should run. That is list or, if Variable is
// set, a list with the same number of places on the devices of Variable, each of which may be used
// several times. Replicas remain replicas, on devices of one kind, and those on the same device
// remain on the same device. Budgets are removed, since they are meant for the test's own devices.
// GPUs are emulated until the test ends.
func Devices(t testing.TB, list string) string {
	t.Helper()
	return devices(t, list, others(t))
}

// Fewer returns n, or about a quarter of n if Variable is set, because emulated devices are slow.
func Fewer(n int) int {
	if os.Getenv(Variable) == "" {
		return n
	}
	return min(n, 1+n/4)
}

// OneKind is like Devices, but uses only devices of the kind of the first one in Variable. It is
// for tests that compare bits, which are the same for every placement only within one kind.
func OneKind(t testing.TB, list string) string {
	t.Helper()
	names := others(t)
	return devices(t, list, slices.DeleteFunc(names, func(n string) bool { return kind(n) != kind(names[0]) }))
}

// others returns the names of the devices in Variable.
func others(t testing.TB) (names []string) {
	t.Helper()
	list := os.Getenv(Variable)
	if list == "" {
		return nil
	}
	choices, err := device.ParseList(list)
	if err != nil {
		t.Fatalf("%s=%s: %v", Variable, list, err)
	}
	for _, c := range choices {
		names = append(names, c.Name)
	}
	return names
}

// devices does what Devices does, with the given names instead of those in Variable.
func devices(t testing.TB, list string, names []string) string {
	t.Helper()
	if names == nil {
		return list
	}
	choices, err := device.ParseList(list)
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	next := 0
	for _, c := range choices {
		_, number, _ := strings.Cut(c.Name, "/")
		n, err := strconv.Atoi(number)
		if err != nil {
			n = 1
		}
		speed := c.Speed
		if speed == 0 {
			speed = 1 // so that the device's speed is not measured
		}
		for range n {
			first := names[next%len(names)]
			same := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return kind(n) != kind(first) })
			at := slices.Index(same, first)
			rate := "@" + strconv.FormatFloat(speed, 'g', -1, 64)
			replicas := []string{first + rate}
			for _, also := range c.Also {
				if also.Name != c.Name {
					at++
				}
				replicas = append(replicas, same[at%len(same)]+rate)
			}
			places = append(places, strings.Join(replicas, "|"))
			next++
		}
	}
	if gpus := gpusIn(names); gpus > 0 {
		emulate(t, gpus)
	}
	return strings.Join(places, ",")
}

// kind returns the kind that a device's name begins with.
func kind(name string) string {
	return name[:strings.IndexAny(name+":", ":/")]
}

// gpusIn returns the number of GPUs that a machine needs to have all of the named GPUs.
func gpusIn(names []string) (gpus int) {
	for _, name := range names {
		if number, ok := strings.CutPrefix(name, device.CUDA.String()+":"); ok {
			n, _ := strconv.Atoi(number)
			gpus = max(gpus, n+1)
		}
	}
	return gpus
}
