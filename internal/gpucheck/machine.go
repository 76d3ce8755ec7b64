package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/device/cuda"
)

// look describes the machine. Where the GPU isn't there, the error is the driver's.
func (c *check) look() error {
	places, err := device.Resolve(c.device, 0)
	if err != nil {
		return err
	}
	if len(places) != 1 || places[0].Info.Kind != device.CUDA {
		return fmt.Errorf("-device %s: name one NVIDIA GPU, such as cuda:0", c.device)
	}
	gpu := places[0].Info
	c.report.emulated = strings.Contains(gpu.Description, "emulated")
	name, _, _ := strings.Cut(gpu.Description, ",")
	if c.report.title = "Leat on " + name; c.report.emulated {
		c.report.title = "Leat under the emulated driver"
	}
	s := section{title: "Machine"}
	add := func(format string, v ...any) { s.lines = append(s.lines, fmt.Sprintf(format, v...)) }
	add("GPU: %s, %s; %s, %s free", gpu.Name, gpu.Description, device.FormatSize(gpu.Memory), device.FormatSize(gpu.Free))
	found, _ := device.Discover()
	for _, d := range found {
		if d.Kind == device.CUDA && d.Name != gpu.Name {
			add("also: %s, %s", d.Name, d.Description)
		}
		if d.Kind == device.CPU {
			add("CPU: %s, %d cores, %s", d.Description, len(d.Cores), d.SIMD)
		}
	}
	add("driver: %s", driver())
	if library := os.Getenv(cuda.LibraryVariable); library != "" {
		add("%s is set: the driver's library is not the system's own", cuda.LibraryVariable)
	}
	add("Leat: %s, %s, %s/%s", revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	add("date: %s", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	c.report.add(s)
	return nil
}

// driver is what the kernel's module says of its version.
func driver() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return "its version isn't known here"
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(strings.TrimPrefix(first, "NVRM version:")), " ")
}

// revision is the commit that the program was built from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of an unknown commit"
	}
	commit, changed := "of an unknown commit", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "commit " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return commit + changed
}
