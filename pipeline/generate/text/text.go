// Package text turns the token ids of a continuation into text that can be
// shown as it is written: whole characters, and nothing that a stop text may yet
// claim.
//
// It owns the text that is held back. It must not know how tokens are spelled,
// which is for the Decoder, nor what happens to the text: a Writer has no
// goroutine, and blocks on nothing.
package text

// Decoder turns tokens into text. *tokenizer.Decoder is one.
type Decoder interface {
	// Append appends the text that a token completes to text: valid UTF-8,
	// whole characters, often nothing.
	Append(text []byte, id int32) []byte
	// Flush appends what Append has held back.
	Flush(text []byte) []byte
}

// Writer writes one continuation. Each token costs a time that grows with its
// own text and doesn't depend on how much is held back, averaged over the
// continuation, nor on how many stop texts there are. A Writer belongs to one
// goroutine at a time.
type Writer struct {
	decoder Decoder
	stops   *matcher // nil: none
	node    int32    // where the matcher is
	buffer  []byte   // buffer[shown:] is held back
	shown   int
	stopped bool
}

// NewWriter returns a writer for a continuation that ends before the first of
// the stop texts. It copies what it needs of them. Stop texts that are empty are
// ignored, since they would end any continuation at once, and so are those that
// aren't valid UTF-8, which no whole characters are.
func NewWriter(d Decoder, stops []string) *Writer {
	return &Writer{decoder: d, stops: newMatcher(stops)}
}

// Add takes the next token. It returns the text that can be shown now, often "",
// and whether the token has completed a stop text. If it completes several, the
// one that begins first counts. Neither the stop text nor what comes after it is
// ever shown: when Add has returned stopped once, it returns "" and true.
func (w *Writer) Add(id int32) (text string, stopped bool) {
	if w.stopped {
		return "", true
	}
	from := len(w.buffer)
	w.buffer = w.decoder.Append(w.buffer, id)
	return w.release(from, false), w.stopped
}

// End returns the text that is left when no more tokens come: what was held back
// for a stop text that didn't come, and bytes that are no whole character, as
// U+FFFD. If these complete a stop text, it is left out.
func (w *Writer) End() string {
	if w.stopped {
		return ""
	}
	from := len(w.buffer)
	w.buffer = w.decoder.Flush(w.buffer)
	return w.release(from, true)
}

// release gives out what can be shown of the buffer, of which what begins at
// from is new.
func (w *Writer) release(from int, all bool) string {
	end := len(w.buffer)
	if w.stops != nil {
		for i, b := range w.buffer[from:] {
			w.node = w.stops.next(w.node, b)
			if n := w.stops.nodes[w.node].stop; n > 0 {
				w.stopped = true
				end = min(end, from+i+1-int(n))
			}
		}
		switch {
		case all:
			w.node = 0
		case !w.stopped:
			end -= int(w.stops.nodes[w.node].depth)
		}
	}
	text := string(w.buffer[w.shown:end])
	w.shown = end
	switch {
	case w.stopped:
		w.buffer, w.shown = nil, 0
	case w.shown >= len(w.buffer)-w.shown:
		// Moving no more than has been shown since makes moving free on average.
		w.buffer = w.buffer[:copy(w.buffer, w.buffer[w.shown:])]
		w.shown = 0
	}
	return text
}
