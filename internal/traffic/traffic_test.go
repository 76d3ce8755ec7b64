package traffic_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leat-dev/leat/internal/traffic"
)

func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := traffic.New()
		<-time.After(time.Second)
		assert.Zero(t, f.Empty(), "up to the latest Enter")
		f.Enter()
		assert.Equal(t, time.Second, f.Empty())
		f.Enter()
		<-time.After(time.Second)
		f.Leave()
		assert.Equal(t, 1, f.Batches())
		<-time.After(time.Second)
		f.Leave()
		<-time.After(5 * time.Second)
		f.Enter()
		assert.Equal(t, 6*time.Second, f.Empty())
		assert.Equal(t, 1, f.Batches())
	})
}

func TestCounterOfManyGoroutines(t *testing.T) {
	f, began := traffic.New(), time.Now()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 1000 {
				f.Enter()
				f.Leave()
			}
		})
	}
	wait.Wait()
	assert.Zero(t, f.Batches())
	assert.LessOrEqual(t, f.Empty(), time.Since(began))
}
