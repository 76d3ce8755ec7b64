package generate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/allocated"
	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/internal/stories"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/model"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/packer"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/pipeline/generate"
)

// held is what the process holds on the plan's devices, each counted once.
func held(p *generate.Plan) (sum int64) {
	counted := map[string]bool{}
	for _, s := range p.Stages {
		if !counted[s.Device.Name] {
			sum += allocated.Bytes(s.Device.Name)
			counted[s.Device.Name] = true
		}
	}
	return sum
}

func planned(p *generate.Plan) (sum int64) {
	for _, s := range p.Stages {
		sum += s.Bytes()
	}
	return sum
}

// What the devices' allocators hold after loading, and after work, is within 2%
// of the plan.
func TestPlanIsWhatDevicesHold(t *testing.T) {
	models := map[string][]byte{
		stories.Name: stories.GGUF,
		"tied":       gguftest.Llama{Type: gguf.Type(8), Tied: true, Vocab: 2000, Width: 256, Hidden: 512}.Build(),
		"untied":     gguftest.Llama{Type: gguf.Type(2), Vocab: 1000, Width: 128, Blocks: 5}.Build(),
	}
	for name, data := range models {
		for _, devices := range []string{"cpu", "cpu/2", "cpu/3", "cpu:0,cpu,cpu:0"} {
			t.Run(name+" on "+devices, func(t *testing.T) {
				m, err := model.Parse(name, data)
				require.NoError(t, err)
				e, err := generate.New(t.Context(), m, on(stagetest.Devices(t, devices)), pipeline.WithMaxBatch(64), generate.WithMaxSeqs(8))
				require.NoError(t, err)
				defer func() { assert.NoError(t, e.Close()) }()
				want := float64(planned(e.Plan()))
				t.Logf("planned %.0f bytes, held %d", want, held(e.Plan()))
				assert.InEpsilon(t, want, held(e.Plan()), 0.02)
				logits(t, e, make([]int32, 100))
				assert.InDelta(t, want, held(e.Plan()), 0.02*want+64<<10, "after work, small scratch included")
			})
		}
	}
}

// A tied head and the embedding lie on a device once, at however many places of
// it they stand.
func TestTiedHeadIsCountedOnceADevice(t *testing.T) {
	weights := func(tied bool, devices string) (sum int64) {
		m, err := model.Parse("m", gguftest.Llama{Tied: tied, Vocab: 4000}.Build())
		require.NoError(t, err)
		p, err := generate.NewPlan(t.Context(), m, on(devices))
		require.NoError(t, err)
		for _, s := range p.Stages {
			sum += s.Weights
		}
		return sum
	}
	table := int64(4000 * 64 * 4)
	const norm = 64 * 4 // lies with the head
	assert.InDelta(t, table, weights(false, "cpu")-weights(true, "cpu"), norm)
	assert.InDelta(t, table, weights(false, "cpu,cpu")-weights(true, "cpu,cpu"), norm)
	if runtime.NumCPU() > 1 {
		assert.Zero(t, weights(false, "cpu/2")-weights(true, "cpu/2"))
	}
}

// resident is the process's resident memory.
func resident(t *testing.T) int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("the system doesn't say how much memory is resident: ", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// On a model of 1.1 billion parameters the process's resident memory is within
// 5% and 64 MiB of the plan.
func TestResidentMemoryIsThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and loads models of a gigabyte")
	}
	tool := filepath.Join(shared, "tools/mkgguf")
	if _, err := os.Stat(tool); err != nil {
		t.Skip("the tool that makes the model is not beside the repository: ", err)
	}
	make := filepath.Join(t.TempDir(), "mkgguf")
	build := exec.Command("go", "build", "-o", make, ".")
	build.Dir = tool
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, format := range []string{"Q8_0", "Q4_0"} {
		t.Run(format, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			out, err := exec.Command(make, "-o", path, "-type", format).CombinedOutput()
			require.NoError(t, err, "%s", out)
			before := resident(t)
			e := open(t, path, on("cpu"), generate.WithContext(512), generate.WithMaxSeqs(1))
			// Memory is resident once it was used: here by a batch as large as they come.
			_, err = e.Generate(t.Context(), generate.Request{Tokens: slices.Repeat([]int32{1}, 512)})
			require.NoError(t, err)
			got, want := resident(t)-before, planned(e.Plan())
			t.Logf("planned %s, held %s, resident %s", device.FormatSize(want), device.FormatSize(held(e.Plan())), device.FormatSize(got))
			assert.InEpsilon(t, want, held(e.Plan()), 0.02)
			assert.InDelta(t, want, got, 0.05*float64(want)+64<<20)
		})
	}
}

func TestNoFitSaysWhatWould(t *testing.T) {
	m, err := model.Parse("m", gguftest.Llama{Type: gguf.Type(8), Vocab: 1000, Width: 256, Heads: 4, KVHeads: 4, Blocks: 4, Context: 4096}.Build())
	require.NoError(t, err)
	for _, budget := range []string{"12MiB", "8MiB"} {
		_, err = generate.NewPlan(t.Context(), m, on("cpu="+budget), pipeline.WithMaxBatch(32))
		var short *generate.NoFitError
		require.ErrorAs(t, err, &short)
		assert.ErrorIs(t, err, packer.ErrNoFit)
		assert.ErrorContains(t, err, "budget "+strings.Replace(budget, "MiB", ".0 MiB", 1))
		assert.ErrorContains(t, err, "short")
		require.NotEmpty(t, short.Ways, err)
		require.LessOrEqual(t, len(short.Ways), 3)
		for _, w := range short.Ways {
			options := []generate.Option{on("cpu=" + budget), pipeline.WithMaxBatch(32)}
			n, _ := strconv.Atoi(w.Value)
			switch w.Setting {
			case generate.SettingContext:
				options = append(options, generate.WithContext(n))
			case generate.SettingMaxSeqs:
				options = append(options, generate.WithMaxSeqs(n))
			case generate.SettingKV:
				require.Equal(t, "q8_0", w.Value)
				options = append(options, generate.WithKV(kernels.Q8_0))
			}
			p, err := generate.NewPlan(t.Context(), m, options...)
			require.NoError(t, err, w)
			assert.Equal(t, w.Bytes, planned(p), w)
		}
	}
	_, err = generate.NewPlan(t.Context(), m, on("cpu=100KiB"))
	assert.ErrorContains(t, err, "use more or larger devices")
}

// planFor plans a model on imagined devices; nil: it doesn't fit.
func planFor(t *testing.T, m *model.Model, list string, options ...generate.Option) *generate.Plan {
	t.Helper()
	p, err := generate.NewPlan(t.Context(), m, append(options, pipeline.WithImagined(list), pipeline.WithMaxBatch(16))...)
	if errors.Is(err, packer.ErrNoFit) {
		return nil
	}
	require.NoError(t, err)
	return p
}

// More memory on any device never gives fewer pages, and a plan without room for all
// sequences says which of its stages has none.
func TestMoreMemoryNeverGivesFewerPages(t *testing.T) {
	m, err := model.Parse("m", gguftest.Llama{Blocks: 5, Vocab: 1000}.Build())
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	limited := 0
	for round := range 120 {
		budgets := make([]int64, 1+r.IntN(3))
		for i := range budgets {
			budgets[i] = r.Int64N(1 << (18 + r.IntN(5)))
		}
		speeds := make([]int, len(budgets))
		for i := range speeds {
			speeds[i] = 1 + r.IntN(20)
		}
		list := func(budgets []int64) string {
			var names []string
			for i, b := range budgets {
				names = append(names, fmt.Sprintf("cpu:%d=%d@%d", i, b, speeds[i]))
			}
			return strings.Join(names, ",")
		}
		options := []generate.Option{generate.WithMaxSeqs(1 + r.IntN(64)), generate.WithContext(32 * (1 + r.IntN(4)))}
		at, before := list(budgets), 0
		if p := planFor(t, m, at, options...); p != nil {
			before = p.Pages
			full := p.MaxSeqs * p.Context / kernels.PageTokens
			assert.Equal(t, p.Pages < full, p.Limit != nil, at)
			if p.Limit != nil {
				limited++
				assert.Equal(t, p.Stages[p.Limit.Stage].Device.Name, p.Limit.Device, at)
			}
		}
		for i := range budgets {
			for _, more := range []int64{1, r.Int64N(1 << 16), r.Int64N(1 << 22)} {
				larger := slices.Clone(budgets)
				larger[i] += more
				after := 0
				if p := planFor(t, m, list(larger), options...); p != nil {
					after = p.Pages
				}
				assert.GreaterOrEqual(t, after, before, "round %d: %s, then %s", round, at, list(larger))
			}
		}
	}
	assert.Greater(t, limited, 12, "the memories are such that pages are short")
}

// Planning takes time and memory in proportion to the blocks, and ends with its
// context.
func TestPlanningIsNearLinear(t *testing.T) {
	m, err := model.Parse("m", gguftest.Llama{Blocks: 4000, Width: 32, Heads: 1, KVHeads: 1, Hidden: 32, Context: 4096}.Build())
	require.NoError(t, err)
	for _, list := range []string{"cpu:0@1,cpu:1@1", "cpu:0=100MiB@3,cuda:0=6GiB@9,cpu:1=90MiB@2", "cpu:0=2000MiB@1,cpu:1=1500MiB@3"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		p := planFor(t, m, list, generate.WithMaxSeqs(64))
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		require.NotNil(t, p, list)
		t.Logf("%s: %v, %d MiB allocated in all, %d pages", list, took, (after.TotalAlloc-before.TotalAlloc)>>20, p.Pages)
		assert.Less(t, took, 10*time.Second, "seconds even under the race detector")
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<29))
	}
	p := planFor(t, m, "cpu:0@1,cpu:1@1", generate.WithMaxSeqs(2))
	assert.InDelta(t, 2000, p.Stages[0].To, 20, "as good a cut as of a small model")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = generate.NewPlan(ctx, m, pipeline.WithImagined("cpu,cpu"))
	assert.ErrorIs(t, err, context.Canceled)
	_, err = generate.NewPlan(ctx, m, pipeline.WithImagined("cpu=1KiB"))
	assert.ErrorIs(t, err, context.Canceled)
}

// Pages for more than 512 tokens a sequence don't move layers to a slow device.
func TestPagesBeyondTheUsualLengthComeAfterSpeed(t *testing.T) {
	m, err := model.Parse("m", gguftest.Llama{Blocks: 5, Context: 4096}.Build())
	require.NoError(t, err)
	fast := func(budget string) *generate.Plan {
		p := planFor(t, m, "cpu:0="+budget+"@1000,cpu:1=1GiB@1", generate.WithMaxSeqs(4))
		require.NotNil(t, p)
		return p
	}
	roomy := fast("64MiB")
	require.Len(t, roomy.Stages, 1)
	assert.Equal(t, 4*4096/kernels.PageTokens, roomy.Pages)
	less := fast("10MiB")
	assert.Len(t, less.Stages, 1, "all layers on the fast device, with fewer pages")
	assert.GreaterOrEqual(t, less.Pages, (4096+3*512)/kernels.PageTokens)
	assert.Less(t, less.Pages, roomy.Pages)
	assert.Equal(t, &generate.Limit{Stage: 0, Device: "cpu:0"}, less.Limit)
	assert.Equal(t, less.Pages/(4096/kernels.PageTokens), less.Sequences())
	least := fast("3MiB")
	assert.Len(t, least.Stages, 2, "what was asked for needs the slow one")
	assert.GreaterOrEqual(t, least.Pages, (4096+3*512)/kernels.PageTokens)
}

func TestTwoEnginesShareADevice(t *testing.T) {
	first := tale(t, on("cpu:0"))
	one := held(first.Plan())
	second := tale(t, on("cpu:0"))
	assert.Equal(t, 2*one, held(second.Plan()))

	// A budget is for what the process holds on the device, through all engines.
	budget := fmt.Sprintf("cpu:0=%d", 2*one+200_000)
	_, err := generate.NewPlan(t.Context(), parse(t), on(budget))
	assert.ErrorIs(t, err, packer.ErrNoFit)
}

// Two plans that each fit alone don't both start.
func TestPlansAreCheckedAgainWhenTheyStart(t *testing.T) {
	plan := func() *generate.Plan {
		p, err := generate.NewPlan(t.Context(), parse(t), on("cpu:0=5MiB"))
		require.NoError(t, err)
		return p
	}
	a, b := plan(), plan()
	require.Greater(t, planned(a), int64(3<<20))
	e, err := a.Start(t.Context())
	require.NoError(t, err)
	_, err = b.Start(t.Context())
	assert.ErrorIs(t, err, packer.ErrNoFit)
	assert.ErrorContains(t, err, "5.0 MiB")
	require.NoError(t, e.Close())
	e, err = b.Start(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.Close())
}
