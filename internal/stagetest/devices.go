package stagetest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leat-dev/leat/device"
)

// Variable names the environment variable whose device list tests run on in place
// of their own, such as "cuda:0,cuda:1,cpu:0".
const Variable = "LEAT_TEST_DEVICES"

// Devices returns the device list that a test is to run on: list, or, where Variable
// is set, one of as many places that are its devices, over and over again. Replicas
// stay replicas, of one kind, and on one device where they were; budgets are left out,
// since they are meant for other devices. GPUs are emulated ones, for the time of the
// test.
func Devices(t testing.TB, list string) string {
	t.Helper()
	return devices(t, list, others(t))
}

// Fewer is n, or about a quarter of it where Variable is set: emulated devices are
// slow.
func Fewer(n int) int {
	if os.Getenv(Variable) == "" {
		return n
	}
	return min(n, 1+n/4)
}

// OneKind is Devices with devices of one kind alone, the first in Variable: only
// on those has a result the same bits wherever layers stand.
func OneKind(t testing.TB, list string) string {
	t.Helper()
	names := others(t)
	return devices(t, list, slices.DeleteFunc(names, func(n string) bool { return kind(n) != kind(names[0]) }))
}

// others are the devices that Variable names.
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
			speed = 1 // one that is given isn't measured
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

// kind is what a device's name begins with.
func kind(name string) string {
	return name[:strings.IndexAny(name+":", ":/")]
}

// gpusIn is how many GPUs a machine has that has all those of the names.
func gpusIn(names []string) (gpus int) {
	for _, name := range names {
		if number, ok := strings.CutPrefix(name, device.CUDA.String()+":"); ok {
			n, _ := strconv.Atoi(number)
			gpus = max(gpus, n+1)
		}
	}
	return gpus
}
