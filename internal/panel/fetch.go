//go:build (amd64 || arm64) && !noasm

package panel

// Fetch has the processor bring p into its cache while it does something else. It
// returns at once and changes nothing, so that p may be memory that is written
// meanwhile.
func Fetch(p []byte) {
	if len(p) > 0 {
		fetch(p)
	}
}
