package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/device"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and what it was built from",
		Long: `Shows the version, the commit that it was built from, the version of Go, and the kinds
of devices that this program has backends for. Whether there are such devices, leat
devices says.`,
		Example: `  leat version
  leat version --json`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			v := builtFrom()
			if asJSON {
				return printJSON(c.OutOrStdout(), v)
			}
			return v.print(c.OutOrStdout())
		},
	}
	jsonFlag(c.Flags(), &asJSON)
	return c
}

// versionDocument is what leat version --json prints.
type versionDocument struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit"`   // "" where it isn't known
	Modified bool     `json:"modified"` // there were changes that aren't in the commit
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Backends []string `json:"backends"`
}

// builtFrom reads what the linker has noted.
func builtFrom() versionDocument {
	v := versionDocument{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, k := range device.Backends() {
		v.Backends = append(v.Backends, k.String())
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionDocument) String() string {
	commit := v.Commit
	switch {
	case commit == "":
		commit = "unknown"
	case v.Modified:
		commit += ", with changes"
	}
	return fmt.Sprintf("leat %s\ncommit: %s\nbuilt with: %s for %s\nbackends: %s\n",
		v.Version, commit, v.Go, v.Platform, strings.Join(v.Backends, ", "))
}

func (v versionDocument) print(w io.Writer) error {
	_, err := io.WriteString(w, v.String())
	return err
}
