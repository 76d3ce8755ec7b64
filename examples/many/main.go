// Many continues many prompts concurrently with one model. Each line of standard input is a prompt,
// and each line of output its continuation, in the same order. Prompts that run at the same time
// share batches, and so every read of the weights; each text is the same as if its prompt ran
// alone.
//
//	go run ./examples/many model.gguf < prompts.txt
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"golang.org/x/sync/errgroup"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/pipeline/generate"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: many MODEL.gguf < PROMPTS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// ahead is the maximum number of prompts that are in progress. It bounds the memory for an input of
// any length.
const ahead = 64

func run(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	e, err := generate.Open(ctx, path, generate.WithMaxSeqs(ahead))
	if err != nil {
		return err
	}
	defer e.Close()

	texts := make(chan chan string, ahead) // in the order of the prompts
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer close(texts)
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			prompt, text := lines.Text(), make(chan string, 1)
			select {
			case texts <- text:
			case <-ctx.Done():
				return ctx.Err()
			}
			work.Go(func() error {
				result, err := e.Generate(ctx, generate.Request{Prompt: prompt, MaxTokens: 48})
				text <- result.Text
				return err
			})
		}
		return lines.Err()
	})
	work.Go(func() error {
		for text := range texts {
			select {
			case t := <-text:
				fmt.Fprintf(out, "%q\n", t)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return work.Wait()
}
