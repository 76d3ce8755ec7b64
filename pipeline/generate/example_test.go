package generate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// storyteller starts an engine on a small model that writes stories for children.
func storyteller(options ...generate.Option) *generate.Engine {
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		log.Fatal(err)
	}
	e, err := generate.New(context.Background(), m, options...)
	if err != nil {
		log.Fatal(err)
	}
	return e
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "leat")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.gguf")
	if err := os.WriteFile(path, stories.GGUF, 0o600); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	e, err := generate.Open(ctx, path, pipeline.WithDevices("cpu/2"), generate.WithContext(64), generate.WithMaxSeqs(8))
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	fmt.Println(len(e.Plan().Stages), "stages, up to", e.Plan().Context, "tokens")
	// Output: 2 stages, up to 64 tokens
}

func ExampleNew() {
	m, err := model.Parse(stories.Name, stories.GGUF) // or model.Open
	if err != nil {
		log.Fatal(err)
	}
	e, err := generate.New(context.Background(), m)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Close(), e.Close()) // an engine does not need its model any more
	// Output: <nil> <nil>
}

func ExampleNewPlan() {
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	_, err = generate.NewPlan(ctx, m, pipeline.WithDevices("cpu=10KiB"))
	fmt.Println("it does not fit:", errors.Is(err, packer.ErrNoFit))
	p, err := generate.NewPlan(ctx, m, pipeline.WithDevices("cpu/2"), generate.WithMaxSeqs(4))
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range p.Stages {
		fmt.Println(s.Layers)
	}
	e, err := p.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	// Output:
	// it does not fit: true
	// embedding, blocks 0-2
	// blocks 3-4, output head
}

func ExamplePlan_Start() {
	m, err := model.Parse(stories.Name, stories.GGUF)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	p, err := generate.NewPlan(ctx, m, pipeline.WithDevices("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	e, err := p.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Plan() == p, e.Close())
	// Output: true <nil>
}

func ExampleEngine_Stream() {
	e := storyteller(pipeline.WithDevices("cpu/2"))
	defer e.Close()
	request := generate.Request{Prompt: "Once upon a time", MaxTokens: 11}
	for token, err := range e.Stream(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: , there was a little girl named Lily.
}

func ExampleEngine_Stream_logProbs() {
	e := storyteller()
	defer e.Close()
	request := generate.Request{Prompt: "Once upon a", MaxTokens: 1, TopLogProbs: 2}
	for token, err := range e.Stream(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range token.Top {
			fmt.Printf("%q %.1f\n", e.Tokenizer().AppendPiece(nil, t.ID), t.LogProb)
		}
	}
	// Output:
	// " time" -0.0
	// "re" -7.9
}

func ExampleEngine_TryStream() {
	e := storyteller(pipeline.WithBacklog(16))
	defer e.Close()
	for token, err := range e.TryStream(context.Background(), generate.Request{Prompt: "Once upon", MaxTokens: 2}) {
		switch {
		case errors.Is(err, generate.ErrBusy):
			fmt.Println("503: try again later")
		case err != nil:
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: a time
}

func ExampleEngine_Generate() {
	e := storyteller()
	defer e.Close()
	result, err := e.Generate(context.Background(), generate.Request{
		Prompt: "Once upon a time", MaxTokens: 64, Stop: []string{"."},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q, %d tokens, %s\n", result.Text, len(result.Tokens), result.Finish)
	// Output: ", there was a little girl named Lily", 11 tokens, stop
}

func ExampleEngine_Generate_sampling() {
	e := storyteller()
	defer e.Close()
	request := generate.Request{Prompt: "Once upon a time", MaxTokens: 20, Sampling: generate.DefaultSampling()}
	request.Seed = 7 // the same seed gives the same text
	a, err := e.Generate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	b, err := e.Generate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Text == b.Text)
	// Output: true
}

func ExampleEngine_TryGenerate() {
	e := storyteller()
	defer e.Close()
	result, err := e.TryGenerate(context.Background(), generate.Request{Prompt: "Once upon", MaxTokens: 2})
	fmt.Println(result.Text, err)
	// Output: a time <nil>
}

func ExampleEngine_Logits() {
	e := storyteller()
	defer e.Close()
	tokens, err := e.Tokens("Once upon a time")
	if err != nil {
		log.Fatal(err)
	}
	rows := 0
	for row, err := range e.Logits(context.Background(), tokens) {
		if err != nil {
			log.Fatal(err)
		}
		rows++
		if rows == len(tokens) {
			fmt.Println(rows, "rows of", len(row))
		}
	}
	// Output: 5 rows of 512
}

func ExampleEngine_Tokens() {
	e := storyteller()
	defer e.Close()
	fmt.Println(e.Tokens("Once upon a time"))
	// Output: [1 403 407 261 378] <nil>
}

func ExampleEngine_Tokenizer() {
	e := storyteller()
	defer e.Close()
	fmt.Printf("%q\n", e.Tokenizer().AppendPiece(nil, 403))
	// Output: " Once"
}

func ExampleEngine_Plan() {
	e := storyteller(pipeline.WithDevices("cpu/2"))
	defer e.Close()
	fmt.Println(e.Plan().Stages[0].Layers)
	// Output: embedding, blocks 0-2
}

func ExampleEngine_Err() {
	e := storyteller()
	fmt.Println(e.Err()) // what a readiness probe asks
	e.Close()
	fmt.Println(e.Err())
	// Output:
	// <nil>
	// pipeline closed
}

func ExampleEngine_Stats() {
	e := storyteller()
	defer e.Close()
	if _, err := e.Generate(context.Background(), generate.Request{Prompt: "Once upon", MaxTokens: 9}); err != nil {
		log.Fatal(err)
	}
	s := e.Stats()
	fmt.Println(s.ReachedLength, "request,", s.GeneratedTokens, "tokens,", s.Running, "running")
	// Output: 1 request, 9 tokens, 0 running
}

func ExampleEngine_Shutdown() {
	e := storyteller()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil { // requests took longer than that
		e.Close()
	}
	_, err := e.Generate(context.Background(), generate.Request{Prompt: "Once"})
	fmt.Println(errors.Is(err, generate.ErrClosed))
	// Output: true
}

func ExampleEngine_Close() {
	e := storyteller()
	fmt.Println(e.Close())
	// Output: <nil>
}

func ExampleEngine_SetMaxWait() {
	e := storyteller(pipeline.WithMaxWait(time.Second))
	defer e.Close()
	e.SetMaxWait(0) // the last request comes now
	result, err := e.Generate(context.Background(), generate.Request{Prompt: "Once upon", MaxTokens: 2})
	fmt.Println(result.Text, err)
	// Output: a time <nil>
}

func ExampleRequest_Check() {
	err := generate.Request{Prompt: "Once", Stop: []string{""}}.Check()
	fmt.Println(errors.Is(err, generate.ErrRequest), err)
	// Output: true an empty stop text would stop at once: leave it out
}

func ExampleDefaultSampling() {
	s := generate.DefaultSampling()
	fmt.Println(s.Temperature, s.TopK, s.TopP, s.MinP)
	// Output: 0.8 40 0.95 0.05
}

func ExampleWithContext() {
	e := storyteller(generate.WithContext(16))
	defer e.Close()
	_, err := e.Generate(context.Background(), generate.Request{Tokens: make([]int32, 17)})
	fmt.Println(errors.Is(err, generate.ErrTooLong))
	fmt.Println(err)
	// Output:
	// true
	// input is longer than the context: 17 tokens, the context holds 16: shorten it, or open the engine with a longer context
}

func ExampleWithMaxSeqs() {
	e := storyteller(generate.WithMaxSeqs(4)) // others wait
	defer e.Close()
	fmt.Println(e.Plan().MaxSeqs)
	// Output: 4
}

func ExampleWithKV() {
	e := storyteller(generate.WithKV(kernels.F32)) // twice as large as F16
	defer e.Close()
	fmt.Println(e.Err())
	// Output: <nil>
}

func ExampleWithKVMemory() {
	e := storyteller(generate.WithKVMemory(1 << 20))
	defer e.Close()
	fmt.Println(e.Stats().Pages == e.Plan().Pages)
	// Output: true
}
