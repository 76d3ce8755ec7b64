package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/placement"
	"github.com/leat-dev/leat/stage"
)

// An option that has no effect beside another one is an error, whatever their order.
func TestOptionsThatExcludeEachOther(t *testing.T) {
	file, err := placement.Parse("file", []byte(`{"version": 1, "layers": {"0-1": "cpu"}}`))
	require.NoError(t, err)
	placed, read := pipeline.WithPlacement("no such file"), pipeline.WithPlacementFile(file)
	imagined, measured := pipeline.WithImagined("cpu:0,cpu:1"), pipeline.WithCalibration("")
	for _, of := range []struct {
		kept, without string
		a, b          pipeline.Option
	}{
		{"WithPlacement", "WithDevices", placed, pipeline.WithDevices("cpu")},
		{"WithPlacement", "WithPack", placed, pipeline.WithPack(pipeline.Balanced)},
		{"WithPlacement", "WithCalibration", placed, measured},
		{"WithPlacement", "WithImagined", placed, imagined},
		{"WithPlacement", "WithPlacementFile", placed, read},
		{"WithPlacementFile", "WithDevices", read, pipeline.WithDevices("cpu")},
		{"WithPlacementFile", "WithPack", read, pipeline.WithPack(pipeline.FirstFit)},
		{"WithPlacementFile", "WithCalibration", read, measured},
		{"WithPlacementFile", "WithImagined", read, imagined},
		{"WithImagined", "WithDevices", imagined, pipeline.WithDevices("cpu")},
		{"WithImagined", "WithThreads", imagined, pipeline.WithThreads(1)},
		{"WithImagined", "WithReserve", imagined, pipeline.WithReserve(1)},
		{"WithImagined", "WithCalibration", imagined, measured},
		{"WithPack(pipeline.FirstFit)", "WithCalibration", pipeline.WithPack(pipeline.FirstFit), measured},
	} {
		for _, options := range [][]pipeline.Option{{of.a, of.b}, {of.b, of.a}} {
			_, err := pipeline.NewPlan(t.Context(), layers(2), options...)
			assert.ErrorContains(t, err, "pipeline."+of.without+" has no effect beside pipeline."+of.kept)
		}
	}
	_, err = pipeline.NewPlan(t.Context(), layers(2), pipeline.WithPlacementFile(nil))
	assert.ErrorContains(t, err, "without a file")
}

// The state has a place of its own in each function, and doesn't say what options say.
func TestStatesThatHaveNoEffect(t *testing.T) {
	ctx, cpu := t.Context(), pipeline.WithDevices("cpu")
	_, err := pipeline.Survey(ctx, layers(2), cpu, pipeline.WithState(stage.Config{Pages: 3}))
	assert.ErrorContains(t, err, "pipeline.WithState has no effect")

	site, err := pipeline.Survey(ctx, layers(2), cpu)
	require.NoError(t, err)
	plan, err := site.Plan(ctx, stage.Config{})
	require.NoError(t, err)
	for option, state := range map[string]stage.Config{
		"WithMaxBatch": {MaxRows: 4}, "WithInFlight": {InFlight: 2}, "WithInput": {Input: 3},
	} {
		_, of := pipeline.NewPlan(ctx, layers(2), cpu, pipeline.WithState(state))
		_, planned := site.Plan(ctx, state)
		_, changed := plan.With(ctx, state)
		for _, err := range []error{of, planned, site.Fits(ctx, state), changed, plan.Fits(ctx, state)} {
			assert.ErrorContains(t, err, "has no effect: use pipeline."+option)
		}
	}
}

// A line's user forms the batches. It gets the settings for that from the site, and the
// options for a Pipeline's own ways are errors.
func TestOptionsWithoutEffectOnALine(t *testing.T) {
	ctx, handler := t.Context(), pipeline.Handler{Finished: func(*stage.Batch) {}}
	for name, option := range map[string]pipeline.Option{
		"WithAhead": pipeline.WithAhead(3), "WithIsolation": pipeline.WithIsolation(true),
		"WithMaxWait": pipeline.WithMaxWait(1), "WithBacklog": pipeline.WithBacklog(1),
	} {
		plan, err := pipeline.NewPlan(ctx, layers(2), pipeline.WithDevices("cpu"), option)
		require.NoError(t, err)
		_, err = pipeline.OpenLine(ctx, plan, handler)
		assert.ErrorContains(t, err, "pipeline."+name+" has no effect")
	}
	site, err := pipeline.Survey(ctx, layers(2), pipeline.WithDevices("cpu"), pipeline.WithMaxWait(1), pipeline.WithBacklog(1))
	require.NoError(t, err)
	_, err = site.Gathering()
	require.NoError(t, err)
	plan, err := site.Plan(ctx, stage.Config{})
	require.NoError(t, err)
	line, err := pipeline.OpenLine(ctx, plan, handler)
	require.NoError(t, err)
	require.NoError(t, line.Close())
}
