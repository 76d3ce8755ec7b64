// Command leat runs language models whose layers are spread over several
// devices, as stages of a pipeline.
//
// Results go to standard output, everything else to standard error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/cmd/leat/internal/files"

	// This import registers the backends of all devices other than CPU cores.
	_ "github.com/leat-dev/leat/backends"
)

func main() {
	ctx, stop := signalled(context.Background())
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// signalled returns a context that ends with the first signal to end, such as
// Ctrl+C. The second one ends the process at once. Signals that the process was started
// to ignore, as nohup starts it, stay ignored.
func signalled(parent context.Context) (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(signals) == 0 { // to NotifyContext it would mean all
		return context.WithCancel(parent)
	}
	ctx, stop := signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// run is the whole command: it returns the exit status. The end of ctx is
// Ctrl+C.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, written := files.Output(ctx, stdout)
	defer written.Release()
	errs, told := files.Output(ctx, stderr)
	defer told.Release()
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(errs)
	command, err := root.ExecuteContextC(ctx)
	if failed := written.Err(); err == nil && failed != nil {
		err = failed // the code that prints help and such checks no errors
	}
	return report(ctx, errs, command, err)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "leat",
		Short: "Language models as pipelines over several devices",
		Long: `Leat cuts a model's layers into contiguous runs. Each run becomes a stage on a
device of its own, and many requests flow through the stages at once.

Results go to standard output, everything else to standard error. With --json
standard output gets JSON and nothing else.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 ended by Ctrl+C.`,
		Example: `  leat demo
  leat run -m model.gguf -p "Once upon a time"
  leat plan -m model.gguf --devices cuda:0=20GiB,cpu`,
		Version:       builtFrom().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: checkFiles,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetHelpFunc(printHelp)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(wrongFlag)
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(
		demoCommand(),
		runCommand(),
		batchCommand(),
		planCommand(),
		devicesCommand(),
		inspectCommand(),
		tokenizeCommand(),
		logitsCommand(),
		benchCommand(),
		versionCommand(),
		completionCommand(),
	)
	return root
}

// noSuchCommand refuses what stands where a command's name should.
func noSuchCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	if names := root.SuggestionsFor(args[0]); len(names) > 0 {
		near = fmt.Sprintf(": did you mean %s?", strings.Join(names, " or "))
	}
	return usage("there is no command %q%s", args[0], near)
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help for a command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if err := about.ValidateArgs(rest); about == c.Root() && err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}
