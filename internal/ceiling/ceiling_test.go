package ceiling

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rate would be too good if a loop left something out.
func TestLoopsDoWhatTheyCount(t *testing.T) {
	for _, l := range loops() {
		assert.Equal(t, l.sum, l.run(1), l.name)
		assert.Greater(t, l.run(1000), l.sum, l.name)
	}
}

func TestReadReadsEveryLine(t *testing.T) {
	p := make([]byte, 1<<20)
	want := uint32(0)
	for at := 0; at < len(p); at += 64 {
		binary.LittleEndian.PutUint32(p[at:], uint32(at))
		want += uint32(at)
	}
	// Only the first of eight numbers of a vector is returned by the one, and halves of
	// eight bytes by the other: the numbers lie where both count them.
	assert.Equal(t, want, read(p))
	assert.Equal(t, want, readWords(p))
}

func TestMeasure(t *testing.T) {
	rates, err := Measure(t.Context(), time.Millisecond)
	require.NoError(t, err)
	require.Len(t, rates, 1+len(loops()))
	for _, r := range rates {
		assert.Positive(t, r.One, r.Name)
		assert.Positive(t, r.All, r.Name)
		t.Logf("%-11s %7.1f  %7.1f G%s/s", r.Name, r.One/1e9, r.All/1e9, r.Unit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Measure(ctx, time.Millisecond)
	assert.ErrorIs(t, err, context.Canceled)
}
