//go:build unix && !linux

package main

import "testing"

const callOpen, callWrite = 0, 0

// blocked skips the test: only Linux tells in which system call a process waits.
func blocked(t *testing.T, _, _ int) {
	t.Skip("only Linux tells in which system call a process waits")
}
