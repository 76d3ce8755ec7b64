package vocabulary

import "strings"

// Part is a piece of the text that a tokenizer encodes. The parts of a text are
// encoded as if they were joined, so that it doesn't matter where one ends, but
// for control tokens: these count only in text that is trusted to have them.
type Part struct {
	Text string
	// Control says that control tokens that stand in Text, such as "</s>", are
	// read as what they are: Text is a chat template's own, or a whole prompt
	// of a caller who may write them. In other parts they are text like any
	// other: what a user of a chat wrote never becomes a control token.
	Control bool
}

// Plain returns a part in which control tokens are text like any other.
func Plain(text string) Part { return Part{Text: text} }

// WithControl returns a part in which control tokens are read as what they are.
func WithControl(text string) Part { return Part{Text: text, Control: true} }

// Segment is a stretch of text, or one special token.
type Segment struct {
	Text string
	ID   int32 // None for text
}

// Split finds the special tokens in a text that is given in parts. It returns
// the special tokens and the text between them, in order; no segment is empty.
//
// User-defined tokens have no meaning beyond their text and are found anywhere,
// also where two parts meet. A control token (or the unknown token) is found
// only where all of it stands in parts with Control that follow each other; a
// part without Control between them separates them even if it is empty.
//
// Where special tokens overlap, the longest comes first, wherever it stands; of
// equally long ones that with the lower id, and then the leftmost.
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
		// User-defined tokens take part here, since a longer one goes before a
		// control token. They are cut out below, with those of other parts.
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

// cut appends a text without control tokens, cut at its user-defined ones.
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

// join returns the text of parts that follow each other, and where it may have
// control tokens.
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
