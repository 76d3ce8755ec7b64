package gguf

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The keys of a file that is part of a split model: a model in several GGUF files, each with
// some of the tensors, as written by llama.cpp's gguf-split.
const (
	partKey  = "split.no"    // the part's number, from 0 on
	partsKey = "split.count" // the number of parts
)

// Whole returns nil if the file is a complete model. If it is part of a split model, Whole
// returns an error that names the parts, because Leat doesn't read split models yet.
func (f *File) Whole() error {
	part, ok, err := f.Uint(partKey)
	if err != nil || !ok {
		return err
	}
	parts, _, err := f.Uint(partsKey)
	switch {
	case err != nil:
		return err
	case parts <= 1 && part == 0:
		return nil
	case part >= parts:
		return fmt.Errorf("%s: key %q is %d and %q is %d: the file is damaged", f.name, partKey, part, partsKey, parts)
	}
	first, names := "the first part", ""
	if before, ok := strings.CutSuffix(filepath.Base(f.name), partName(part, parts)); ok {
		first = before + partName(0, parts)
		names = fmt.Sprintf(" (%s to %s)", first, before+partName(parts-1, parts))
	}
	return fmt.Errorf("%s: it is part %d of a model in %d files%s, which Leat doesn't read yet: join them with llama-gguf-split --merge, given %s",
		f.name, part+1, parts, names, first)
}

// partName returns the end of a part's file name.
func partName(part, parts uint64) string {
	return fmt.Sprintf("-%05d-of-%05d.gguf", part+1, parts)
}
