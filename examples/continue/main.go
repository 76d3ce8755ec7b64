// Continue continues a prompt and prints each token as soon as it is generated.
//
//	go run ./examples/continue model.gguf "Once upon a time"
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: continue MODEL.gguf PROMPT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path, prompt string, w io.Writer) error {
	// Use two groups of cores, each with about half of the layers. For a GPU and the CPU, the
	// list would be "cuda:0,cpu".
	e, err := generate.Open(ctx, path, pipeline.WithDevices("cpu/2"))
	if err != nil {
		return err
	}
	defer e.Close()

	request := generate.Request{Prompt: prompt, MaxTokens: 64}
	for token, err := range e.Stream(ctx, request) {
		if err != nil {
			return err
		}
		fmt.Fprint(w, token.Text)
	}
	fmt.Fprintln(w)
	return e.Close()
}
