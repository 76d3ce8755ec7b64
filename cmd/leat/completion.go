package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands and flags",
		Long: `Prints a script with which a shell completes leat's commands, flags and their values.
SHELL may be bash, zsh, fish or powershell.`,
		Example: `  source <(leat completion bash)
  leat completion zsh > "${fpath[1]}/_leat"
  leat completion fish > ~/.config/fish/completions/leat.fish
  leat completion powershell | Out-String | Invoke-Expression`,
		Args:      arguments(1, "SHELL"),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			w := c.OutOrStdout()
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(w, true)
			case "zsh":
				return c.Root().GenZshCompletion(w)
			case "fish":
				return c.Root().GenFishCompletion(w, true)
			case "powershell":
				return c.Root().GenPowerShellCompletionWithDesc(w)
			}
			return usage("there is no completion for the shell %q: there is for %s", args[0], strings.Join(shells, ", "))
		},
	}
}

// completeFlags says what the values of the pipeline's flags may be.
func (f *pipelineFlags) completeFlags(c *cobra.Command) {
	for flag, values := range map[string][]cobra.Completion{
		"pack":    {string(pipeline.Balanced), string(pipeline.FirstFit)},
		"kv":      {lower(kernels.F32), lower(kernels.F16), lower(kernels.Q8_0)},
		"devices": {"auto", "cpu", "cpu/2", "cuda:0"},
	} {
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flag isn't defined
		}
	}
}

func lower(t kernels.Type) string { return strings.ToLower(t.String()) }
