package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The system calls in which tests want a process to wait.
const (
	callOpen  = syscall.SYS_OPENAT
	callWrite = syscall.SYS_WRITE
)

// blocked returns when a thread of the process waits in a system call: when it is in the
// same call, with the same arguments, many times in a row.
func blocked(t *testing.T, pid, call int) {
	t.Helper()
	type sighting struct {
		state string // the call's number, its arguments, two pointers
		times int
	}
	seen := map[string]sighting{}
	require.Eventually(t, func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		for _, file := range threads {
			state, _ := os.ReadFile(file) // empty of a thread that has ended
			last := seen[file]
			if last.state != string(state) {
				last = sighting{state: string(state)}
			}
			last.times++
			seen[file] = last
			if last.times == 50 && strings.HasPrefix(last.state, fmt.Sprintf("%d ", call)) {
				return true
			}
		}
		return false
	}, 20*time.Second, time.Millisecond, "no thread of process %d waits in system call %d", pid, call)
}
