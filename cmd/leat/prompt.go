package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

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
}

func (p *promptFlags) check() error {
	if p.flags.Changed("prompt") && p.flags.Changed("file") {
		return usage("-p and -f exclude each other: give the prompt once")
	}
	return nil
}

// longestPrompt is in bytes: millions of tokens. It bounds what is kept of a file
// that has no end.
const longestPrompt = 16 << 20

// read returns the prompt. The end of ctx ends the wait for standard input.
func (p *promptFlags) read(ctx context.Context, stdin io.Reader, stderr io.Writer) (string, error) {
	switch {
	case p.flags.Changed("prompt"):
		return p.text, nil
	case p.flags.Changed("file"):
		f, err := os.Open(p.file)
		if err != nil {
			return "", fmt.Errorf("prompt: %w", err)
		}
		defer f.Close()
		return readPrompt(ctx, p.file, f)
	}
	if isTerminal(stdin) {
		fmt.Fprintln(stderr, "Type the prompt and end it with Ctrl+D, on Windows Ctrl+Z and Enter; or give it with -p TEXT.")
	}
	return readPrompt(ctx, "standard input", stdin)
}

// readPrompt reads r to its end. Nothing can interrupt a read from a terminal
// or a pipe: when ctx ends first, the goroutine that reads is left to end with
// its reader.
func readPrompt(ctx context.Context, name string, r io.Reader) (string, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(r, longestPrompt+1))
		done <- result{text, err}
	}()
	select {
	case got := <-done:
		switch {
		case got.err != nil:
			return "", fmt.Errorf("prompt from %s: %w", name, got.err)
		case len(got.text) > longestPrompt:
			return "", fmt.Errorf("prompt from %s: it is longer than %s", name, device.FormatSize(longestPrompt))
		}
		return string(got.text), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
