package main

import (
	"encoding/json"
	"io"
)

// printJSON writes v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
