//go:build unix && !linux

package cpu

func adviseHuge([]byte) {}

func hugePages() bool { return false }
