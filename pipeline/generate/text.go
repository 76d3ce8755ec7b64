package generate

import (
	"strings"

	"github.com/leat-dev/leat/model/tokenizer"
)

// writer turns tokens into text that can be shown: whole characters, and
// nothing that a stop text may yet claim.
type writer struct {
	decoder *tokenizer.Stream
	stops   []string
	held    string
}

// add takes the text of one more token. It returns what can be shown, and
// whether a stop text came, which itself and what follows is never shown.
func (w *writer) add(id int32) (text string, stopped bool) {
	w.held += w.decoder.Next(id)
	return w.release(false)
}

// end returns what is left when no more tokens come.
func (w *writer) end() string {
	w.held += w.decoder.Flush()
	text, _ := w.release(true)
	return text
}

func (w *writer) release(all bool) (text string, stopped bool) {
	cut := len(w.held)
	for _, s := range w.stops {
		if i := strings.Index(w.held, s); i >= 0 && i < cut {
			cut, stopped = i, true
		}
	}
	if stopped {
		text, w.held = w.held[:cut], ""
		return text, true
	}
	if !all {
		cut -= w.begun()
	}
	text, w.held = w.held[:cut], w.held[cut:]
	return text, false
}

// begun is the length of the longest end of the held text that a stop text
// begins with.
func (w *writer) begun() int {
	longest := 0
	for _, s := range w.stops {
		for n := min(len(s)-1, len(w.held)); n > longest; n-- {
			if strings.HasSuffix(w.held, s[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}
