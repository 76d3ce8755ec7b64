// Package source is the kernels' source and how it is compiled: for the generator of
// the PTX, and for the test that says when that is stale. Nothing that computes
// imports it.
package source

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
)

//go:embed *.h
var files embed.FS

// Options are NVRTC's. No product and sum are fused but where the source says so, and
// every operation is rounded as IEEE 754 has it, so that results have the same bits on
// all GPUs.
var Options = []string{
	"--gpu-architecture=compute_75",
	"--std=c++14",
	"--fmad=false",
	"--prec-div=true",
	"--prec-sqrt=true",
	"--ftz=false",
}

// Compiler is the release of NVRTC that the PTX comes from, and the package of the
// Python package index that has it. An older one makes PTX that older drivers take.
const (
	Compiler = "12.4"
	Wheel    = "nvidia-cuda-nvrtc-cu12==12.4.127"
)

// Main is what is compiled: the prelude, then the kernels.
const Main = "#include \"cuda.h\"\n#include \"kernels.h\"\n"

// Headers returns the source files by name. Line ends are as in the repository,
// whatever a checkout made of them.
func Headers() (map[string][]byte, error) {
	headers := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		headers[name] = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		return err
	})
	return headers, err
}

// Stamp returns the first line of the PTX made from the source: what it was made of
// and by.
func Stamp() (string, error) {
	headers, err := Headers()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%q\n", Options, Main)
	entries, err := files.ReadDir(".") // sorted by name
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		fmt.Fprintf(h, "%q %q\n", e.Name(), headers[e.Name()])
	}
	return "// Written by make kernels with NVRTC " + Compiler + " from sources of SHA-256 " + hex.EncodeToString(h.Sum(nil)), nil
}
