package layers

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A machine of the other byte order gets copies, which have the same order.
func TestCopiesAreLittleEndian(t *testing.T) {
	v := []float32{1, -2.5}
	assert.Equal(t, []byte{0, 0, 128, 63, 0, 0, 32, 192}, encode(v))
	assert.Equal(t, v, decode(encode(v)))
}
