package main

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/model/gguf"
)

func TestDevices(t *testing.T) {
	text := done(t, "devices")
	assert.Regexp(t, `^device +description +memory +free +simd\n`, text)
	doc := document[devicesDocument](t, "devices", "--json")
	found, missing := device.Discover()
	require.Len(t, doc.Devices, len(found))
	require.Len(t, doc.Unavailable, len(missing))
	for i, u := range doc.Unavailable {
		assert.Equal(t, missing[i].Kind.String(), u.Kind)
		assert.NotEmpty(t, u.Reason)
		assert.Contains(t, text, u.Reason)
	}
	last := doc.Devices[len(doc.Devices)-1]
	assert.Equal(t, "cpu", last.Kind)
	assert.NotEmpty(t, last.SIMD)
	assert.NotEmpty(t, last.Cores)
	assert.NotEmpty(t, last.Description)
	assert.Contains(t, text, last.Name)
	assert.Contains(t, text, last.SIMD)
}

// Nothing is wider than the window, down to windows where a table has no room.
func TestNarrowWindows(t *testing.T) {
	found := []device.Info{{Name: "cpu:0-127", Kind: device.CPU, Description: "A processor with a long name", Memory: 1 << 40, Free: 1 << 39, SIMD: "avx512-vnni"}}
	missing := []device.Unavailable{{Kind: device.CUDA, Reason: "no NVIDIA driver: libcuda.so.1: cannot open shared object file: No such file or directory"}}
	f, err := gguf.Open(storiesFile)
	require.NoError(t, err)
	defer f.Close()
	for _, width := range []int{20, 50, 80, 200} {
		for _, lines := range [][]string{deviceLines(found, missing, width), fileLines(f, width)} {
			for _, line := range lines {
				assert.LessOrEqual(t, ansi.StringWidth(line), width, line)
			}
		}
	}
	text := ansi.Strip(strings.Join(deviceLines(found, missing, 50), "\n"))
	assert.Contains(t, text, "cpu:0-127\n  description A processor with a long name\n")
	assert.Contains(t, text, "\ncuda       none: no NVIDIA driver:\n           libcuda.so.1:")
	assert.Contains(t, strings.Join(strings.Fields(text), " "), "No such file or directory")
}
