package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
	"github.com/leat-dev/leat/device"
)

// promptFlags say where a prompt comes from.
type promptFlags struct {
	text, file string
	flags      *pflag.FlagSet
}

func (p *promptFlags) add(flags *pflag.FlagSet) {
	p.flags = flags
	flags.StringVarP(&p.text, "prompt", "p", "", "the prompt, `TEXT`")
	flags.StringVarP(&p.file, "file", "f", "", "read the prompt from `FILE` (default: standard input)")
	inputFile(flags, "file")
}

func (p *promptFlags) check() error {
	if p.flags.Changed("prompt") && p.flags.Changed("file") {
		return usage("-p and -f exclude each other: give the prompt once")
	}
	return nil
}

// given says that a flag names the prompt, which standard input has otherwise.
func (p *promptFlags) given() bool {
	return p.flags.Changed("prompt") || p.flags.Changed("file") && p.file != files.Standard
}

// longestPrompt is in bytes: millions of tokens. It bounds what is kept of a file
// that has no end.
const longestPrompt = 16 << 20

// read returns the prompt. The end of ctx ends the wait for standard input.
func (p *promptFlags) read(ctx context.Context, stdin io.Reader, stderr io.Writer) (string, error) {
	switch {
	case p.flags.Changed("prompt"):
		return p.text, nil
	case p.flags.Changed("file") && p.file != files.Standard:
		f, err := files.Open(ctx, p.file, nil)
		if err != nil {
			return "", fmt.Errorf("prompt: %w", err)
		}
		defer f.Close()
		return readPrompt(p.file, f)
	}
	if isTerminal(stdin) {
		fmt.Fprintln(stderr, "Type the prompt and end it with Ctrl+D, on Windows Ctrl+Z and Enter; or give it with -p TEXT.")
	}
	return readPrompt("standard input", files.Input(ctx, stdin))
}

// readPrompt reads r to its end. A byte order mark at the beginning, as Windows
// programs write it, isn't part of the text.
func readPrompt(name string, r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, longestPrompt+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("prompt from %s: %w", name, err)
	case len(text) > longestPrompt:
		return "", fmt.Errorf("prompt from %s: it is longer than %s", name, device.FormatSize(longestPrompt))
	}
	return strings.TrimPrefix(string(text), byteOrderMark), nil
}
