package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

func TestRowBytes(t *testing.T) {
	for _, c := range []struct {
		t     kernels.Type
		cols  int
		bytes int64
	}{
		{kernels.F32, 3, 12}, {kernels.Q8_0, 64, 68}, {kernels.Q4_K, 512, 288}, {kernels.NVFP4, 64, 36}, {kernels.BF16, 0, 0},
	} {
		got, err := c.t.RowBytes(c.cols)
		require.NoError(t, err)
		assert.Equal(t, c.bytes, got, c.t)
	}
}

// Every type's largest row is an error or a size, never a negative one.
func TestRowBytesThatCannotBe(t *testing.T) {
	_, err := kernels.Q4_0.RowBytes(33)
	assert.ErrorContains(t, err, "not a whole number of Q4_0 blocks of 32")
	_, err = kernels.F32.RowBytes(-1)
	assert.ErrorContains(t, err, "-1 elements")
	_, err = kernels.Type(99).RowBytes(32)
	assert.ErrorContains(t, err, "not a type")
	for _, typ := range kernels.WeightTypes() {
		elems, bytes := typ.Block()
		got, err := typ.RowBytes(math.MaxInt / elems * elems)
		if bytes > elems {
			assert.ErrorContains(t, err, "more bytes than memory can hold", typ)
		} else {
			assert.NoError(t, err, typ)
			assert.Positive(t, got, typ)
		}
	}
}
