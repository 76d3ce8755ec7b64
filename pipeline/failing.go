package pipeline

import (
	"errors"
	"fmt"
)

// ErrFailing is what every *FailingError is.
var ErrFailing = errors.New("pipeline failing")

// FailingError says that batches by a route all fail: as many as WithFailureLimit
// allows, one after the other, and then one row that was sent to see whether it is
// the requests. A pipeline all of whose routes are failing takes no calls. Such a
// row is sent again after a second, and after twice that time whenever it fails, up
// to a minute; when it passes, the route works again.
type FailingError struct {
	Batches int   // that failed, one after the other
	Err     error // that of the last one, a *stage.Error
}

// Error implements error.
func (e *FailingError) Error() string {
	return fmt.Sprintf("%v: %d batches failed in a row, the last one: %v", ErrFailing, e.Batches, e.Err)
}

// Unwrap returns ErrFailing and the last batch's error.
func (e *FailingError) Unwrap() []error { return []error{ErrFailing, e.Err} }
