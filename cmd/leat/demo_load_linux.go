package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// userHZ is how many ticks a second /proc/stat counts, on every Linux.
const userHZ = 100

// readProcessorTime reads the time for which cores worked, whoever they worked
// for, and that of this process on any core.
func readProcessorTime(cores []int) (p processorTime, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p, false
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return p, false
	}
	all, ok := busyTime(string(text), cores)
	own := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return processorTime{time.Now(), all, own}, ok
}

// busyTime adds up the lines of some cores of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal, and guests, who are in user already. Time that the
// machine's host took away (steal) is time that others took.
func busyTime(stat string, cores []int) (sum time.Duration, ok bool) {
	found := 0
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !slices.ContainsFunc(cores, func(c int) bool { return fields[0] == fmt.Sprint("cpu", c) }) {
			continue
		}
		found++
		for i, f := range fields[1:9] {
			if i == 3 || i == 4 { // idle, iowait
				continue
			}
			ticks, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, false
			}
			sum += time.Duration(ticks) * time.Second / userHZ
		}
	}
	return sum, found == len(cores)
}
