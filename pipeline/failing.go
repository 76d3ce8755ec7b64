package pipeline

import (
	"errors"
	"fmt"
)

// ErrFailing is wrapped by every [*FailingError], for use with errors.Is.
var ErrFailing = errors.New("pipeline failing")

// FailingError is why a route is failing. (A route leads through one replica of each stage;
// a pipeline without replicas has one route.) A route begins to fail when as many batches in
// a row have failed on it as [WithFailureLimit] allows, and then a probe has failed too.
// The probe is a batch with one row that the layers can compute, so that its failure is
// not due to the callers' rows.
//
// The probe is repeated after a second, and after each further failure the pause is
// doubled, up to a minute. When a probe succeeds, the route is used again. While all
// routes are failing, the pipeline accepts no calls.
type FailingError struct {
	Batches int   // how many batches have failed in a row
	Err     error // the error of the last one, a *stage.Error
}

// Error implements error.
func (e *FailingError) Error() string {
	return fmt.Sprintf("%v: %d batches failed in a row, the last one: %v", ErrFailing, e.Batches, e.Err)
}

// Unwrap returns ErrFailing and the last batch's error.
func (e *FailingError) Unwrap() []error { return []error{ErrFailing, e.Err} }
