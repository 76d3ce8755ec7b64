package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func ExampleSite_Gathering() {
	site, err := pipeline.Survey(context.Background(), layers(2), pipeline.WithDevices("cpu"), pipeline.WithMaxWait(5*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	g, err := site.Gathering()
	fmt.Println(g.MaxWait, g.Backlog, err)
	// Output: 5ms 1024 <nil>
}

func ExampleOption_EngineOption() {
	// An engine's options may be some of this package and some of package generate.
	options := []interface{ EngineOption() }{pipeline.WithDevices("cpu/2")}
	options[0].EngineOption()
	fmt.Println(len(options))
	// Output: 1
}

// Whoever forms batches on a Line is told of options that are for a Pipeline alone.
func TestGatheringRefusesOptionsWithoutEffect(t *testing.T) {
	for name, option := range map[string]pipeline.Option{
		"WithInput":     pipeline.WithInput(3),
		"WithAhead":     pipeline.WithAhead(3),
		"WithIsolation": pipeline.WithIsolation(false),
	} {
		site, err := pipeline.Survey(t.Context(), layers(2), pipeline.WithDevices("cpu"), option)
		require.NoError(t, err)
		_, err = site.Gathering()
		assert.ErrorContains(t, err, "pipeline."+name+" has no effect")
	}
}

// told counts what an observer is told, and who came first.
type told struct {
	name  string
	mu    *sync.Mutex
	order *[]string
}

func (o told) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*o.order = append(*o.order, o.name+" "+what)
}

func (o told) Filled(pipeline.Handling)  { o.note("filled") }
func (o told) Worked(stage.Work)         { o.note("worked") }
func (o told) Emptied(pipeline.Handling) { o.note("emptied") }

func TestSeveralObservers(t *testing.T) {
	var mu sync.Mutex
	var order []string
	observe := func(name string) pipeline.Option {
		return pipeline.WithObserver(told{name, &mu, &order})
	}
	p, err := pipeline.New(t.Context(), layers(1), pipeline.WithInput(2), pipeline.WithDevices("cpu"),
		observe("a"), pipeline.WithObserver(nil), observe("b"), observe("c"))
	require.NoError(t, err)
	_, err = p.Do(t.Context(), []float32{1, 2})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	assert.Equal(t, []string{
		"a filled", "b filled", "c filled", "a worked", "b worked", "c worked", "a emptied", "b emptied", "c emptied",
	}, order)
}

func ExampleLine_Inside() {
	plan, err := pipeline.NewPlan(context.Background(), layers(2), pipeline.WithDevices("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	finished := make(chan bool, 1)
	var line *pipeline.Line
	line, err = pipeline.OpenLine(context.Background(), plan, pipeline.Handler{Finished: func(b *stage.Batch) { finished <- line.Inside() }})
	if err != nil {
		log.Fatal(err)
	}
	defer line.Close()
	b := <-line.Free()
	b.Header.Append(1, 0, 0, true)
	if err := line.Submit(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the handler:", <-finished, "the caller:", line.Inside())
	// Output: the handler: true the caller: false
}
