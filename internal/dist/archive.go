package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"time"
)

// file is one file of an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// tarGzip returns a gzip-compressed tar archive with the files in a folder. All files have the
// modification time at and no owner, so that equal files give equal archives.
func tarGzip(folder string, files []file, at time.Time) ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     folder + "/" + f.name,
			Mode:     int64(f.mode),
			Size:     int64(len(f.data)),
			ModTime:  at.UTC().Truncate(time.Second),
			Format:   tar.FormatUSTAR,
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(t.Close(), z.Close())
	return packed.Bytes(), err
}

// zipped returns a zip archive with the same contents as tarGzip's.
func zipped(folder string, files []file, at time.Time) ([]byte, error) {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for _, f := range files {
		h := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: at.UTC().Truncate(2 * time.Second)}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return packed.Bytes(), err
}
