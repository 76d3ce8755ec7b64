package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBusyTime(t *testing.T) {
	const stat = `cpu  40 0 0 0 0 0 0 0 0 0
cpu0 100 10 20 4000 500 1 2 3 50 0
cpu1 200 0 0 4000 0 0 0 0 0 0
cpu10 1 0 0 0 0 0 0 0 0 0
intr 5 6 7
`
	for _, c := range []struct {
		cores []int
		want  time.Duration
		ok    bool
	}{
		{[]int{0}, 1360 * time.Millisecond, true},
		{[]int{0, 1}, 3360 * time.Millisecond, true},
		{[]int{10}, 10 * time.Millisecond, true},
		{[]int{0, 7}, 1360 * time.Millisecond, false},
	} {
		got, ok := busyTime(stat, c.cores)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.ok, ok)
	}
	_, ok := busyTime("cpu0 a b c d e f g h\n", []int{0})
	assert.False(t, ok)
}
