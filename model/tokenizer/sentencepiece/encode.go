package sentencepiece

import "github.com/leat-dev/leat/model/tokenizer/vocabulary"

// Encode returns the tokens of a text, which is given in parts, without BOS and EOS. In parts
// with Control set, the text of a control token is encoded as that token; in other parts it is
// encoded like any text. User-defined tokens are found in all parts.
//
// Decoding the tokens of plain parts returns the original text, with a space for each ▁, if the
// vocabulary has a token for every byte and no user-defined tokens.
func (t *Tokenizer) Encode(parts ...vocabulary.Part) []int32 {
	return t.encode(nil, parts)
}

// Prompt returns the tokens of a text that a model is to continue: those of Encode, preceded by
// BOS unless the file says otherwise or the text begins with it.
func (t *Tokenizer) Prompt(parts ...vocabulary.Part) []int32 {
	return t.OneBOS(t.encode(t.AppendBOS(nil), parts))
}

func (t *Tokenizer) encode(ids []int32, parts []vocabulary.Part) []int32 {
	m := t.mergers.Get().(*merger)
	defer t.mergers.Put(m)
	first := true // whether the segment is at the beginning or after a special token
	for _, s := range t.Split(parts...) {
		if s.ID != vocabulary.None {
			ids = append(ids, s.ID)
			first = true
			continue
		}
		m.load(s.Text, t.spacePrefix && first)
		m.merge(t)
		ids = m.emit(t, ids)
		first = false
	}
	return ids
}
