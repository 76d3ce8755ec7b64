package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
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
