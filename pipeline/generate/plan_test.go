package generate_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
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
			sum += device.InUse(s.Device.Name)
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
				e, err := generate.New(t.Context(), m, on(stagetest.Devices(t, devices), pipeline.WithMaxBatch(64)), generate.WithMaxSeqs(8))
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
		_, err = generate.NewPlan(t.Context(), m, on("cpu="+budget, pipeline.WithMaxBatch(32)))
		var short *generate.NoFit
		require.ErrorAs(t, err, &short)
		assert.ErrorIs(t, err, packer.ErrNoFit)
		assert.ErrorContains(t, err, "budget "+strings.Replace(budget, "MiB", ".0 MiB", 1))
		assert.ErrorContains(t, err, "short")
		require.NotEmpty(t, short.Ways, err)
		require.LessOrEqual(t, len(short.Ways), 3)
		for _, w := range short.Ways {
			flag, value, _ := strings.Cut(w.Flag, " ")
			options := []generate.Option{on("cpu="+budget, pipeline.WithMaxBatch(32))}
			n, _ := strconv.Atoi(value)
			switch flag {
			case "--ctx":
				options = append(options, generate.WithContext(n))
			case "--max-seqs":
				options = append(options, generate.WithMaxSeqs(n))
			case "--kv":
				require.Equal(t, "q8_0", value)
				options = append(options, generate.WithKV(kernels.Q8_0))
			}
			p, err := generate.NewPlan(t.Context(), m, options...)
			require.NoError(t, err, w.Flag)
			assert.Equal(t, w.Bytes, planned(p), w.Flag)
		}
	}
	_, err = generate.NewPlan(t.Context(), m, on("cpu=100KiB"))
	assert.ErrorContains(t, err, "use more or larger devices")
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
