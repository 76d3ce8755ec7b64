package main

import (
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
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

// printDevices prints the tables no wider than the terminal behind w.
func printDevices(w io.Writer, found []device.Info, missing []device.Unavailable) error {
	_, err := lipgloss.Fprint(w, strings.Join(deviceLines(found, missing, windowWidth(w)), "\n")+"\n")
	return err
}

// deviceLines returns the devices in lines of at most width columns; 0: any.
func deviceLines(found []device.Info, missing []device.Unavailable, width int) []string {
	columns := newColumns("device", "description", "memory", "free", "simd")
	for _, d := range found {
		simd := d.SIMD
		if d.HugePages {
			simd += ", huge pages"
		}
		addRow(columns, d.Name, printable(d.Description), known(d.Memory), known(d.Free), simd)
	}
	lines := fitted(columns, width)
	indent := columns[0].width() + 2
	if width > 0 && indent > width/2 {
		indent = 2
	}
	for _, u := range missing {
		none := "none"
		if slices.ContainsFunc(found, func(d device.Info) bool { return d.Kind == u.Kind }) {
			none = "not all"
		}
		text := pad(u.Kind.String(), columns[0].width()) + "  " + none + ": " + oneLine(u.Reason)
		for i, line := range within(text, max(0, width-indent)) {
			if i > 0 {
				line = strings.Repeat(" ", indent) + line
			}
			lines = append(lines, line)
		}
	}
	return lines
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
	HugePages   bool     `json:"huge_pages,omitempty"` // that large buffers lie on
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
		doc.Devices = append(doc.Devices, deviceDocument{d.Name, d.Kind.String(), d.Description, d.Memory, d.Free, d.SIMD, d.HugePages, d.Cores, d.Peers})
	}
	for _, u := range missing {
		doc.Unavailable = append(doc.Unavailable, missingDocument{u.Kind.String(), u.Reason})
	}
	return doc
}
