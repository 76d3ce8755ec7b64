package schedule

import "time"

// Config says what there is to schedule for.
type Config struct {
	Routes     []Route
	MaxRows    int // rows in a batch, at least 1
	MaxOutputs int // output rows in a batch, at least 1
	MaxSeqs    int // sequences that are admitted at once, at least 1

	// Grace is how long an admitted sequence may wait for its caller, for a token
	// to be appended or for output rows to be taken, while others starve: after
	// that it is displaced.
	Grace time.Duration
}

// Route describes one way through the stages. A sequence stays on its route while
// it is admitted, and a batch holds rows of one route.
type Route struct {
	Pages    int     // pages of kernels.PageTokens tokens for its sequences
	Stages   []Stage // in order
	InFlight int     // the most batches in flight, at least 1
	Fixed    bool    // always use that many, whatever has been learned of the stages
}

// Stage describes one stage of a route.
type Stage struct {
	Device string // stages of one name take turns
	Routes int    // how many routes that device serves at this stage, at least 1
}
