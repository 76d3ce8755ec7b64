package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/device"
)

func devicesCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "List the devices that are there, and why others aren't",
		Long: `Lists the devices that were found, by their names in --devices, and for each kind
of device that was not found the reason.

An NVIDIA GPU needs its driver alone, for CUDA 12.4 or newer. Where the driver's library
isn't found by itself, LEAT_CUDA_LIBRARY says which file it is.`,
		Example: `  leat devices
  leat devices --json`,
		Args: arguments(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			found, missing := device.Discover()
			if asJSON {
				return printJSON(c.OutOrStdout(), devicesOf(found, missing))
			}
			return printDevices(c.OutOrStdout(), found, missing)
		},
	}
	jsonFlag(c.Flags(), &asJSON)
	return c
}

func printDevices(w io.Writer, found []device.Info, missing []device.Unavailable) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "device\tdescription\tmemory\tfree\tsimd")
	for _, d := range found {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", d.Name, printable(d.Description), known(d.Memory), known(d.Free), d.SIMD)
	}
	for _, u := range missing {
		none := "none"
		if slices.ContainsFunc(found, func(d device.Info) bool { return d.Kind == u.Kind }) {
			none = "not all"
		}
		fmt.Fprintf(t, "%s\t%s: %s\n", u.Kind, none, oneLine(u.Reason))
	}
	return t.Flush()
}

func known(bytes int64) string {
	if bytes <= 0 {
		return "unknown"
	}
	return device.FormatSize(bytes)
}

// devicesDocument is what leat devices --json prints.
type devicesDocument struct {
	Devices     []deviceDocument  `json:"devices"`
	Unavailable []missingDocument `json:"unavailable"`
}

type deviceDocument struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	Description string   `json:"description"`
	Memory      int64    `json:"memory_bytes"`
	Free        int64    `json:"free_bytes"`
	SIMD        string   `json:"simd,omitempty"`
	Cores       []int    `json:"cores,omitempty"`
	Peers       []string `json:"peers,omitempty"` // GPUs that it copies to and from directly
}

type missingDocument struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

func devicesOf(found []device.Info, missing []device.Unavailable) devicesDocument {
	doc := devicesDocument{Devices: []deviceDocument{}, Unavailable: []missingDocument{}}
	for _, d := range found {
		doc.Devices = append(doc.Devices, deviceDocument{d.Name, d.Kind.String(), d.Description, d.Memory, d.Free, d.SIMD, d.Cores, d.Peers})
	}
	for _, u := range missing {
		doc.Unavailable = append(doc.Unavailable, missingDocument{u.Kind.String(), u.Reason})
	}
	return doc
}
