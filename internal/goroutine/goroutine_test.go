package goroutine

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSet(t *testing.T) {
	var a, b Set
	assert.NotZero(t, current())
	assert.False(t, a.Current())
	leave := a.Enter()
	assert.True(t, a.Current())
	assert.False(t, b.Current())
	var others sync.WaitGroup
	for range 20 {
		others.Go(func() {
			assert.False(t, a.Current())
			defer b.Enter()()
			assert.True(t, b.Current())
		})
	}
	others.Wait()
	leave()
	assert.False(t, a.Current())
	assert.False(t, b.Current())
}
