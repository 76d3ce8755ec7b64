package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a file of a command.
type File struct {
	Flag   string // how the command line names it, such as "-o out.f32"
	Path   string // Standard: what Stream is
	Stream any    // standard input or output, if the file is one of them
	Output bool
}

// Clash returns an error that names two files of a command of which one would be
// overwritten by the other, or of which one would read what the other writes: an
// output that is also an input or another output, whether by the same path, by
// links, or as the standard output that the shell has redirected to it. It also
// refuses to read standard input twice. Terminals and devices such as /dev/null may
// be used several times.
func Clash(all []File) error {
	identities := make([]*identity, len(all))
	for i, f := range all {
		identities[i] = identify(f)
	}
	for i, f := range all {
		for j, other := range all[:i] {
			if !f.Output && !other.Output {
				if f.Stream != nil && other.Stream != nil {
					return fmt.Errorf("%s and %s exclude each other: standard input can be read once", other.Flag, f.Flag)
				}
				continue
			}
			if identities[i].same(identities[j]) {
				return fmt.Errorf("%s and %s are the same file: it would be overwritten", other.Flag, f.Flag)
			}
		}
	}
	return nil
}

// identity says which file a path means. Of a file that isn't there yet it is the
// folder and the name under which it would be created.
type identity struct {
	info fs.FileInfo // of the file, or of its folder
	name string      // "": the file is there
}

// identify returns nil for what can't be overwritten, or can't be found out about.
func identify(f File) *identity {
	if f.Stream != nil {
		if s, ok := f.Stream.(interface{ Stat() (fs.FileInfo, error) }); ok {
			if info, err := s.Stat(); err == nil && exclusive(info) {
				return &identity{info: info}
			}
		}
		return nil
	}
	info, err := os.Stat(f.Path)
	switch {
	case err == nil && exclusive(info):
		return &identity{info: info}
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return nil
	}
	path := followed(f.Path)
	if info, err = os.Stat(filepath.Dir(path)); err != nil {
		return nil
	}
	return &identity{info, filepath.Base(path)}
}

// exclusive says that a file holds what is written to it, or passes it on to its
// reader: it can't be several files of a command at once.
func exclusive(info fs.FileInfo) bool {
	mode := info.Mode()
	return mode.IsRegular() || mode&fs.ModeNamedPipe != 0 || mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
}

// followed follows the links from path to where a file would be created.
func followed(path string) string {
	for range 40 { // as many as a system follows
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// same takes names that differ in upper and lower case alone for the same: on some
// file systems they are.
func (a *identity) same(b *identity) bool {
	return a != nil && b != nil && (a.name == "") == (b.name == "") &&
		strings.EqualFold(a.name, b.name) && os.SameFile(a.info, b.info)
}
