//go:build !race

package cuda

const race = false
