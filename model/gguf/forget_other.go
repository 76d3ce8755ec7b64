//go:build !linux

package gguf

// forget does nothing: what the process has read of the file, the system takes back when
// it needs the memory.
func (*contents) forget([]byte) {}
