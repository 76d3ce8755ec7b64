package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// output is a file that appears whole or not at all: it is written beside its
// place and put there by commit.
type output struct {
	*bufio.Writer
	file  *os.File
	place string // "": file stands in its place already
}

// create begins an output. What isn't a regular file, such as a pipe or
// /dev/null, is written as it is.
func create(path string) (*output, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a folder, not a file to write", path)
	} else if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &output{Writer: bufio.NewWriter(f), file: f}, nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays a link
	}
	f, err := os.OpenFile(fmt.Sprintf("%s.%d.part", path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	var cause *fs.PathError
	if errors.As(err, &cause) {
		return nil, fmt.Errorf("%s: can't be written: %w", path, cause.Err)
	}
	if err != nil {
		return nil, err
	}
	return &output{bufio.NewWriter(f), f, path}, nil
}

// commit puts the file in its place.
func (o *output) commit() error {
	if err := o.Flush(); err != nil {
		return err
	}
	if err := o.file.Close(); err != nil {
		return err
	}
	if o.place == "" {
		return nil
	}
	if err := os.Rename(o.file.Name(), o.place); err != nil {
		return err
	}
	o.place = ""
	return nil
}

// discard leaves nothing behind. After commit it does nothing.
func (o *output) discard() {
	_ = o.file.Close()
	if o.place != "" {
		_ = os.Remove(o.file.Name())
	}
}
