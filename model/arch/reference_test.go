package arch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/leat-dev/leat/backends"
	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/cpu"
	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/stage"
)

// shared is where models and what another engine computes on them lie, beside the
// repository. Tests that need them are skipped where they are absent.
const shared = "../../../shared"

// Declarations of two families, and of others that the tests make, give the logits
// that another engine computes in float32.
func TestLogitsAreTheReference(t *testing.T) {
	areTheReference(t, func(t *testing.T) device.Device { return kerneltest.CPU(t, 1) })
}

func TestLogitsOfGPUsAreTheReference(t *testing.T) {
	emulator.Use(t, emulator.Machine{GPUs: 1})
	areTheReference(t, func(t *testing.T) device.Device { return kerneltest.Open(t, "cuda:0") })
}

func areTheReference(t *testing.T, open func(t *testing.T) device.Device) {
	var all struct {
		Tokens []int32
		Models []struct {
			Name  string
			Limit float64
		}
	}
	parse(t, "reference/archs/manifest.json", &all)
	limits := map[string]float64{}
	for _, m := range all.Models {
		limits[m.Name] = m.Limit
	}
	for name, declared := range variants {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, limits, name)
			f, err := gguf.Open(filepath.Join(shared, "reference/archs", name+".gguf"))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			want := floats(t, filepath.Join("reference/archs", name+".f32"))

			d := open(t)
			whole := runOn(t, d, build(t, f, declared), all.Tokens, len(all.Tokens))
			off := kerneltest.Distance(whole, want)
			t.Logf("relative error %.3g, at most %.3g", off, limits[name])
			require.LessOrEqual(t, off, limits[name])
			chunked := runOn(t, d, build(t, f, declared), all.Tokens, 7)
			kerneltest.SameBits(t, whole, chunked, "in chunks of 7")
		})
	}
}

// A family whose tokenizer isn't here runs by token numbers.
func TestQwen2IsAsCloseAsThePeer(t *testing.T) {
	var all []struct {
		Model, Logits string
		Tokens        []int32
		Peer          float64 `json:"peer_relative_error"`
	}
	parse(t, "reference/manifest.json", &all)
	for _, r := range all {
		if r.Model != "tiny-qwen2-Q8_0.gguf" {
			continue
		}
		f, err := gguf.Open(filepath.Join(shared, "models", r.Model))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		m, err := Build(f)
		require.NoError(t, err)
		require.Equal(t, "qwen2", m.Name)
		d := kerneltest.Distance(run(t, m, r.Tokens, len(r.Tokens)), floats(t, filepath.Join("reference", r.Logits)))
		t.Logf("relative error %.3g, the peer's %.3g", d, r.Peer)
		require.LessOrEqual(t, d, 1.1*r.Peer)
		return
	}
	t.Fatal("no reference of tiny-qwen2-Q8_0.gguf")
}

// build builds a model by a declaration, or by the file's own where that is nil.
func build(t *testing.T, f *gguf.File, declared declaration) *Model {
	t.Helper()
	if declared == nil {
		m, err := Build(f)
		require.NoError(t, err)
		return m
	}
	name, _, err := f.String("general.architecture")
	require.NoError(t, err)
	m, err := declared.build(f, name)
	require.NoError(t, err)
	return m
}

// run is runOn on one core.
func run(t *testing.T, m *Model, tokens []int32, chunk int) (logits []float32) {
	t.Helper()
	return runOn(t, kerneltest.CPU(t, 1), m, tokens, chunk)
}

// runOn returns a model's logits for each of the tokens, which come chunk by chunk,
// and checks that no layer takes more than it costs, or writes where it may not.
func runOn(t *testing.T, d device.Device, m *Model, tokens []int32, chunk int) (logits []float32) {
	t.Helper()
	rig := kerneltest.Backend{}.On(t, d)
	pages := make([]int32, (len(tokens)+kernels.PageTokens-1)/kernels.PageTokens)
	for i := range pages {
		pages[i] = int32(len(pages) - 1 - i)
	}
	config := stage.Config{MaxRows: chunk, MaxOutputs: chunk, MaxTables: len(pages), InFlight: 1, Pages: len(pages), KV: kernels.F32}
	var runners []stage.Runner
	for _, l := range m.Layers {
		before := rig.Q.Device().Allocated()
		r, err := l.Load(t.Context(), rig.Q, config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		cost, err := l.Cost(rig.Q.Device().Info(), config)
		require.NoError(t, err)
		require.LessOrEqual(t, rig.Q.Device().Allocated()-before, cost.Weights+cost.State, "%s takes more than it costs", l.Name())
		runners = append(runners, r)
	}
	for from := 0; from < len(tokens); from += chunk {
		h := kernels.NewHeader(chunk, len(pages))
		table := h.Table(pages)
		n := min(chunk, len(tokens)-from)
		for i := range n {
			h.Append(tokens[from+i], int32(from+i), table, true)
		}
		rows := rig.Rows(h)
		var in kernels.Tensor
		for i, l := range m.Layers {
			work := rig.Tensor(1, max(1, n*l.Shape().Scratch), nil)
			out := rig.Tensor(n, l.Shape().Width, nil)
			rig.Run(func(q kernels.Queue) {
				require.NoError(t, runners[i].Forward(&stage.Pass{Queue: q, Header: h, Rows: rows, Work: work}, in, out))
			})
			rig.Read(work) // nothing was written beside it
			in = out
		}
		logits = append(logits, rig.Read(in)...)
	}
	return logits
}

func parse(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shared, name))
	if err != nil {
		t.Skip("the reference values are not beside the repository: ", err)
	}
	require.NoError(t, json.Unmarshal(data, into))
}

func floats(t *testing.T, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shared, name))
	require.NoError(t, err)
	return kerneltest.FloatsOf(data)
}
