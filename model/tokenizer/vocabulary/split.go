package vocabulary

import "strings"

// Part is a part of a text to be encoded. The parts of a text are encoded as if they were joined,
// except that control tokens are only recognized in text that may contain them.
type Part struct {
	Text string

	// Control is whether the text of a control token, such as "</s>", is encoded as that
	// token. It should be set for the text of a chat template, or for a prompt whose author
	// may use control tokens. In other parts, such as what a user of a chat wrote, the same
	// text never becomes a control token.
	Control bool
}

// Plain returns a part in which the text of control tokens has no special meaning.
func Plain(text string) Part { return Part{Text: text} }

// WithControl returns a part in which the text of a control token is encoded as that token.
func WithControl(text string) Part { return Part{Text: text, Control: true} }

// Segment is a part of a text without special tokens, or one special token.
type Segment struct {
	Text string
	ID   int32 // the special token's id, or None
}

// Split finds the special tokens in a text, which is given in parts. It returns the special
// tokens and the text between them, in order. No segment is empty.
//
// User-defined tokens are found everywhere, even across the boundary of two parts. A control
// token or the unknown token is found only if it is entirely within consecutive parts with
// Control set; a part without Control separates those before and after it even if it is empty.
//
// If special tokens overlap, the longest is found; if several are equally long, the one with
// the lowest id; and of several occurrences of that token, the leftmost.
func (v *Vocabulary) Split(parts ...Part) []Segment {
	text, runs := join(parts)
	if text == "" {
		return nil
	}
	if len(v.specials.ranked) == 0 {
		return []Segment{{text, None}}
	}
	var segments []Segment
	at := 0
	for _, run := range runs {
		// Search for user-defined tokens as well, since a longer one overrides a control
		// token, but leave them to cut, which also finds those across parts.
		for _, h := range v.specials.in(v.tokens, text[run.from:run.to], false) {
			id := v.specials.ranked[h.rank]
			if v.tokens[id].Kind == UserDefined {
				continue
			}
			from := run.from + h.at
			segments = v.cut(segments, text[at:from])
			at = from + len(v.tokens[id].Text)
			segments = append(segments, Segment{text[from:at], id})
		}
	}
	return v.cut(segments, text[at:])
}

// cut appends the segments of a text in which only user-defined tokens are to be found.
func (v *Vocabulary) cut(segments []Segment, text string) []Segment {
	at := 0
	for _, h := range v.specials.in(v.tokens, text, true) {
		id, from := v.specials.ranked[h.rank], h.at
		if at < from {
			segments = append(segments, Segment{text[at:from], None})
		}
		at = from + len(v.tokens[id].Text)
		segments = append(segments, Segment{text[from:at], id})
	}
	if at < len(text) {
		segments = append(segments, Segment{text[at:], None})
	}
	return segments
}

// span is the bytes from to to-1 of a text.
type span struct{ from, to int }

// join returns the text of the parts, and the spans of it in which control tokens may be found.
func join(parts []Part) (text string, control []span) {
	if len(parts) == 1 {
		text = parts[0].Text
	} else {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		text = b.String()
	}
	at, follows := 0, false
	for _, p := range parts {
		end := at + len(p.Text)
		switch {
		case p.Control && follows:
			control[len(control)-1].to = end
		case p.Control:
			control = append(control, span{at, end})
		}
		at, follows = end, p.Control
	}
	return text, control
}
