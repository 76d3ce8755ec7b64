//go:build !race

package sampling

const race = false
