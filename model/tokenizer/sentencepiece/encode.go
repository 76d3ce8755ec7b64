package sentencepiece

import "github.com/leat-dev/leat/model/tokenizer/vocabulary"

// Encode returns the tokens of a text that is given in parts, without BOS and
// EOS. Control tokens are read as what they are in parts that say so; in other
// parts they are text like any other. User-defined tokens are found in both.
//
// Decoding gives the text of plain parts back if the vocabulary has every byte
// and no user-defined tokens, except that ▁ comes back as a space.
func (t *Tokenizer) Encode(parts ...vocabulary.Part) []int32 {
	return t.encode(nil, parts)
}

// Prompt returns the tokens of a text that is to be continued: those of Encode,
// behind BOS unless the file says that there is none, or the text begins with it.
func (t *Tokenizer) Prompt(parts ...vocabulary.Part) []int32 {
	return t.OneBOS(t.encode(t.AppendBOS(nil), parts))
}

func (t *Tokenizer) encode(ids []int32, parts []vocabulary.Part) []int32 {
	m := t.mergers.Get().(*merger)
	defer t.mergers.Put(m)
	first := true // of a text, or after a special token
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
