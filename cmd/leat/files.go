package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leat-dev/leat/cmd/leat/internal/files"
)

// Flags that name files are marked with annotations, so that one place, checkFiles,
// knows all files of a command.
const (
	readsFile  = "reads"
	writesFile = "writes" // the values are endings of further files beside it
)

// inputFile marks a flag that names a file to read.
func inputFile(flags *pflag.FlagSet, name string) { annotate(flags, name, readsFile) }

// outputFile marks a flag that names a file to write. Beside it are written files of
// its name with endings.
func outputFile(flags *pflag.FlagSet, name string, endings ...string) {
	annotate(flags, name, writesFile, endings...)
}

func annotate(flags *pflag.FlagSet, name, as string, values ...string) {
	if err := flags.SetAnnotation(name, as, append([]string{}, values...)); err != nil {
		panic(err) // the flag isn't defined
	}
}

// checkFiles refuses a command that would overwrite one of its files, before it
// opens any. args are files to read if the command is marked so.
func checkFiles(c *cobra.Command, args []string) error {
	stdin := files.File{Flag: "standard input", Path: files.Standard, Stream: c.InOrStdin()}
	all := []files.File{{Flag: "standard output", Path: files.Standard, Stream: c.OutOrStdout(), Output: true}}
	if c.Annotations[readsFile] != "" {
		for _, path := range args {
			all = append(all, files.File{Flag: path, Path: path})
		}
	}
	var wrong error
	implied := true // nothing says what standard input is for
	c.Flags().Visit(func(f *pflag.Flag) {
		_, reads := f.Annotations[readsFile]
		endings, writes := f.Annotations[writesFile]
		path := f.Value.String()
		switch name := shownFlag(f); {
		case wrong != nil || !reads && !writes:
		case path == "":
			wrong = usage("%s: no file is named", name)
		case reads && path == files.Standard && f.Name != modelName:
			implied = false
			all = append(all, files.File{Flag: name + " " + path, Path: path, Stream: c.InOrStdin()})
		case writes && files.IsStandardOutput(path):
		default:
			all = append(all, files.File{Flag: name + " " + path, Path: path, Output: writes})
			for _, ending := range endings {
				all = append(all, files.File{Flag: name + " " + path + ending, Path: path + ending, Output: true})
			}
		}
	})
	if wrong != nil {
		return wrong
	}
	if implied {
		all = append(all, stdin)
	}
	if err := files.Clash(all); err != nil {
		return usageError{err}
	}
	return nil
}

// shownFlag is a flag as it is written in a command line, the short way if there is
// one.
func shownFlag(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}
