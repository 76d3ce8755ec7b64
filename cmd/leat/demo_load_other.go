//go:build !linux

package main

// readProcessorTime says that other programs' load isn't known here.
func readProcessorTime([]int) (processorTime, bool) { return processorTime{}, false }
