package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/trace"
	"github.com/leat-dev/leat/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event is an event of the Trace Event Format, as far as they are written.
type event struct {
	Phase     string  `json:"ph"`
	Process   int     `json:"pid"`
	Lane      int     `json:"tid"`
	Time      float64 `json:"ts"`
	Took      float64 `json:"dur"`
	Name      string  `json:"name"`
	ID        int     `json:"id"`
	Category  string  `json:"cat"`
	BindPoint string  `json:"bp"`
	Scope     string  `json:"s"`
	Args      struct {
		Name    string `json:"name"`
		Place   int    `json:"sort_index"`
		Batch   int    `json:"batch"`
		Rows    int    `json:"rows"`
		Outputs int    `json:"outputs"`
		Error   string `json:"error"`
		Dropped int    `json:"dropped"`
	} `json:"args"`
}

// end is exact to the nanosecond, as times are written.
func (e event) end() float64 { return math.Round((e.Time+e.Took)*1000) / 1000 }

// events parses a trace and checks what holds for all.
func events(t *testing.T, text []byte) (all []event, lanes map[int]string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&all), "%s", text)
	lanes = map[int]string{}
	starts, ends := map[int]event{}, map[int]event{}
	for _, e := range all {
		assert.Equal(t, 1, e.Process)
		switch e.Phase {
		case "M":
			if e.Name == "thread_name" {
				lanes[e.Lane] = e.Args.Name
			}
		case "s":
			starts[e.ID] = e
		case "f":
			assert.Equal(t, "e", e.BindPoint)
			ends[e.ID] = e
		}
	}
	inSlice := func(at event) bool {
		return slices.ContainsFunc(all, func(e event) bool {
			return e.Phase == "X" && e.Lane == at.Lane && e.Time <= at.Time && at.Time <= e.end() && strings.HasPrefix(e.Name, "batch ")
		})
	}
	assert.Equal(t, len(starts), len(ends))
	for id, s := range starts {
		require.Contains(t, ends, id, "an arrow has no end")
		assert.LessOrEqual(t, s.Time, ends[id].Time, "an arrow goes back in time")
		assert.NotEqual(t, s.Lane, ends[id].Lane)
		assert.True(t, inSlice(s) && inSlice(ends[id]), "an arrow's end is in no slice")
	}
	// Slices of a lane follow each other or lie within each other.
	const rounding = 1e-6
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Phase != "X" || b.Phase != "X" || a.Lane != b.Lane {
				continue
			}
			apart := a.end() <= b.Time+rounding || b.end() <= a.Time+rounding
			within := a.Time <= b.Time+rounding && b.end() <= a.end()+rounding
			assert.True(t, apart || within, "%v and %v overlap", a, b)
		}
	}
	return all, lanes
}

// Two stages work at the same time, since each waits for the other.
func TestTwoStagesOverlap(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("two stages of one core take turns")
	}
	meet := make(chan struct{})
	calls := [2]int{}
	layers := []stage.Layer{
		&stagetest.Rows{Called: "block 0", Width: 1, Batch: func(int) error {
			if calls[0]++; calls[0] == 2 {
				meet <- struct{}{}
				<-meet
			}
			return nil
		}},
		&stagetest.Rows{Called: "block 1", Width: 1, Batch: func(int) error {
			if calls[1]++; calls[1] == 1 {
				<-meet
				meet <- struct{}{}
			}
			return nil
		}},
	}
	for _, l := range layers {
		l.(*stagetest.Rows).Costs.Fixed = 1
	}
	var text bytes.Buffer
	tr := trace.New(&text)
	p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu/2")), pipeline.WithMaxBatch(1), pipeline.WithObserver(tr))
	require.NoError(t, err)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			_, err := p.Do(t.Context(), make([]float32, 1))
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	require.NoError(t, p.Close())
	require.NoError(t, tr.Close())

	all, lanes := events(t, text.Bytes())
	stages := p.Plan().Stages
	want := []string{
		"batches formed",
		"results",
		fmt.Sprintf("stage 0 on %s: block 0", stages[0].Device.Name),
		fmt.Sprintf("stage 1 on %s: block 1", stages[1].Device.Name),
	}
	slice := map[string]map[int]event{}
	arrows := 0
	for _, e := range all {
		if e.Phase == "X" && strings.HasPrefix(e.Name, "batch ") {
			of := slice[lanes[e.Lane]]
			if of == nil {
				of = map[int]event{}
				slice[lanes[e.Lane]] = of
			}
			of[e.Args.Batch] = e
			assert.Equal(t, 1, e.Args.Rows)
		}
		if e.Phase == "s" {
			arrows++
		}
	}
	assert.Equal(t, 4*3, arrows, "each batch goes from lane to lane")
	for _, name := range want {
		require.Len(t, slice[name], 4, "%s: %v", name, lanes)
	}
	for batch := 1; batch <= 4; batch++ {
		at := func(lane int) event { return slice[want[lane]][batch] }
		assert.LessOrEqual(t, at(0).end(), at(2).Time)
		assert.LessOrEqual(t, at(2).end(), at(3).Time)
		assert.LessOrEqual(t, at(3).end(), at(1).Time)
		assert.Equal(t, 1, at(0).Args.Outputs)
	}
	second, first := slice[want[2]][2], slice[want[3]][1]
	assert.Less(t, second.Time, first.end())
	assert.Less(t, first.Time, second.end())
}

func TestFailureStandsInTheTrace(t *testing.T) {
	var text bytes.Buffer
	tr := trace.New(&text)
	broken := errors.New("a \"cable\"\ncame off \xff")
	layers := []stage.Layer{&stagetest.Rows{Called: "block 0", Width: 1, Batch: func(int) error { return broken }}}
	p, err := pipeline.New(t.Context(), layers, pipeline.WithInput(1), pipeline.WithDevices(stagetest.Devices(t, "cpu")), pipeline.WithObserver(tr))
	require.NoError(t, err)
	_, err = p.Do(t.Context(), make([]float32, 3))
	require.ErrorIs(t, err, broken)
	require.NoError(t, p.Close())
	require.NoError(t, tr.Close())
	all, _ := events(t, text.Bytes())
	failed := 0
	for _, e := range all {
		if strings.Contains(e.Args.Error, "a \"cable\"\ncame off") {
			failed++
		}
	}
	assert.Equal(t, 2, failed, "in the stage, and in the results")
}

func work(batch uint64, at time.Time) stage.Work {
	return stage.Work{
		Stage: 1, Device: "cpu:0", Layers: "block 0", Batch: batch, Rows: 8,
		Received: at, Transfer: 2 * time.Microsecond, Turn: 3 * time.Microsecond, Compute: 10 * time.Microsecond,
	}
}

// A batch that waits for its data or for the device shows it.
func TestPartsOfASlice(t *testing.T) {
	var text bytes.Buffer
	tr := trace.New(&text)
	tr.Worked(work(1, time.Now()))
	require.NoError(t, tr.Close())
	all, _ := events(t, text.Bytes())
	var names []string
	for _, e := range all {
		if e.Phase == "X" {
			names = append(names, fmt.Sprintf("%s %.0f", e.Name, e.Took))
		}
	}
	assert.Equal(t, []string{"batch 1 15", "transfer 2", "wait for the device 3", "compute 10"}, names)
}

// stuck is a writer that doesn't return before it is let go.
type stuck struct {
	bytes.Buffer
	entered, leave chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case <-s.entered:
	default:
		close(s.entered)
	}
	<-s.leave
	return s.Buffer.Write(p)
}

// What comes too fast is dropped, and the trace says so and stays whole.
func TestDropped(t *testing.T) {
	w := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	tr := trace.New(w)
	told := 0
	tell := func() {
		told++
		tr.Worked(work(uint64(told), time.Now()))
	}
	for written := false; !written; {
		select {
		case <-w.entered:
			written = true
		default:
			tell()
		}
	}
	for range 20000 {
		tell()
	}
	close(w.leave)
	require.NoError(t, tr.Close())
	var all []event
	require.NoError(t, json.Unmarshal(w.Bytes(), &all))
	kept, last := 0, all[len(all)-1]
	for _, e := range all {
		if strings.HasPrefix(e.Name, "batch ") {
			kept++
		}
	}
	assert.Equal(t, "i", last.Phase)
	assert.Positive(t, last.Args.Dropped)
	assert.Equal(t, told, kept+last.Args.Dropped)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestAWriterThatFails(t *testing.T) {
	tr := trace.New(broken{})
	tr.Worked(work(1, time.Now()))
	assert.ErrorContains(t, tr.Close(), "writing the trace: the disk is full")
	tr.Worked(work(2, time.Now())) // too late: it is lost, and nothing else
}

func TestToTellAllocatesNothing(t *testing.T) {
	w := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	tr := trace.New(w)
	told := work(1, time.Now())
	// The trace's goroutine allocates too, until its writer is stuck.
	for stopped := false; !stopped; {
		select {
		case <-w.entered:
			stopped = true
		default:
			tr.Worked(told)
		}
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { tr.Worked(told) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { tr.Filled(pipeline.Handling{Batch: 1}) }))
	close(w.leave)
	require.NoError(t, tr.Close())
}

func BenchmarkWorked(b *testing.B) {
	tr := trace.New(new(nothing))
	told := work(1, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		tr.Worked(told)
	}
	_ = tr.Close()
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
