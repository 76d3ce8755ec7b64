package gguf

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The keys of a model that was split into several files, each of which is a GGUF
// file with some of the tensors.
const (
	partKey  = "split.no" // from 0 on
	partsKey = "split.count"
)

// Whole returns nil for a file that is a model by itself. For a part of a split
// model it returns an error that names the parts, which Leat doesn't read yet.
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

// partName is what a part's file name ends with.
func partName(part, parts uint64) string {
	return fmt.Sprintf("-%05d-of-%05d.gguf", part+1, parts)
}
