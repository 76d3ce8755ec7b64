package pipeline

import "github.com/leat-dev/leat/stage"

// observers calls several observers, in the order in which they were given.
type observers []Observer

// join returns an observer that calls a and then b, either of which may be nil.
func join(a, b Observer) Observer {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	if several, ok := a.(observers); ok {
		return append(several[:len(several):len(several)], b)
	}
	return observers{a, b}
}

// Filled implements Observer.
func (all observers) Filled(h Handling) {
	for _, o := range all {
		o.Filled(h)
	}
}

// Worked implements Observer.
func (all observers) Worked(w stage.Work) {
	for _, o := range all {
		o.Worked(w)
	}
}

// Emptied implements Observer.
func (all observers) Emptied(h Handling) {
	for _, o := range all {
		o.Emptied(h)
	}
}
