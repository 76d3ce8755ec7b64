package pipeline

import (
	"sync/atomic"

	"github.com/leat-dev/leat/stage"
)

// sharedLink is a link with several senders, each of which closes it once. The link
// itself is closed with the last of them.
type sharedLink struct {
	stage.Link
	senders atomic.Int32 // that have not closed it
}

// newSharedLink returns l for the given number of senders.
func newSharedLink(l stage.Link, senders int) stage.Link {
	if senders == 1 {
		return l
	}
	s := &sharedLink{Link: l}
	s.senders.Store(int32(senders))
	return s
}

// Close implements stage.Link.
func (s *sharedLink) Close() {
	if s.senders.Add(-1) == 0 {
		s.Link.Close()
	}
}
