package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/stage"
)

func TestASharedLinkClosesWithItsLastSender(t *testing.T) {
	l := newSharedLink(stage.NewLink(1), 3)
	l.Close()
	l.Close()
	b := stage.NewBatch(0, stage.Config{MaxRows: 1})
	require.NoError(t, l.Send(t.Context(), b))
	l.Close()
	got, err := l.Recv(t.Context())
	require.NoError(t, err)
	assert.Same(t, b, got)
	_, err = l.Recv(t.Context())
	assert.ErrorIs(t, err, stage.ErrClosed)

	alone := stage.NewLink(0)
	assert.Equal(t, alone, newSharedLink(alone, 1))
}
