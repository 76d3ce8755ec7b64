package schedule

// Sequence is one request as the scheduler sees it. Its creator sets the exported
// fields and hands it to Scheduler.Add, once; from then on only the scheduler
// changes it.
type Sequence struct {
	Owner any // the request that it stands for; the scheduler does not use it

	// Tokens are those of the prompt, followed by those that Append has added. Until
	// a batch with an output row of the sequence is back, its token is appended, and
	// its next batch is filled, Tokens may be read by whoever chooses that token.
	Tokens []int32
	// Most is how many tokens there may ever be, at least len(Tokens).
	Most int

	Priority int  // higher goes first; among equals, who was added first
	Want     Want // what is needed of each output row

	// Window, if it is positive, makes the sequence a scored one: an output row of
	// every token is wanted, none is appended, and no more than Window output rows
	// are computed beyond those that Taken has been told of.
	Window int
}

// Scored says whether an output row of every token is wanted.
func (s *Sequence) Scored() bool { return s.Window > 0 }
