//go:build race

package sampling

const race = true
