package allocated_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leat-dev/leat/internal/allocated"
)

func TestBytesOfRegisteredDevices(t *testing.T) {
	held := int64(5)
	allocated.Register("a", func() int64 { return held })
	allocated.Register("b", func() int64 { return 1 })
	assert.EqualValues(t, 5, allocated.Bytes("a"))
	held = 7
	assert.EqualValues(t, 7, allocated.Bytes("a"))
	allocated.Remove("a")
	assert.Zero(t, allocated.Bytes("a"))
	assert.EqualValues(t, 1, allocated.Bytes("b"))
	allocated.Remove("b")
	assert.Zero(t, allocated.Bytes("b"))
}
