package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline/generate"
)

// The exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is an error that the user can correct in the command line itself.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// report writes a command's error, on one line and for a model that doesn't fit with
// a table of ways out below, and returns the exit status.
func report(ctx context.Context, stderr io.Writer, command *cobra.Command, err error) int {
	var wrong usageError
	var list *device.ListError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &wrong), errors.As(err, &list):
		fmt.Fprintf(stderr, "leat: %s\nRun '%s --help' for how it is used.\n", oneLine(err.Error()), command.CommandPath())
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	if short := (*generate.NoFitError)(nil); errors.As(err, &short) {
		reportNoFit(stderr, short)
		return exitFailed
	}
	fmt.Fprintf(stderr, "leat: %s\n", oneLine(withFlag(err).Error()))
	return exitFailed
}

// withFlag adds to an error of the library, which knows nothing of flags, the flag by
// which the user changes what the error is about.
func withFlag(err error) error {
	if errors.Is(err, generate.ErrTooLong) {
		return fmt.Errorf("%w (--ctx)", err)
	}
	return err
}

// longestMessage is how long a message may be, in bytes: files made by strangers may
// have names as long as they like.
const longestMessage = 900

// oneLine joins the lines of joined errors, and spells out whatever a terminal
// would act on rather than show: messages quote files made by strangers.
func oneLine(message string) string {
	var lines []string
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return shortened(printable(strings.Join(lines, "; ")))
}

// shortened cuts a long message in its middle: its beginning says what failed, and its
// end often what to do.
func shortened(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	const end = longestMessage / 3
	from := strings.ToValidUTF8(message[:longestMessage-end-len(" … ")], "")
	return from + " … " + strings.ToValidUTF8(message[len(message)-end:], "")
}

// printable escapes what isn't a printable character, as Go spells it.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}
