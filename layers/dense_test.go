package layers_test

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/layers"
	"github.com/leat-dev/leat/pipeline"
	"github.com/leat-dev/leat/stage"
)

func TestWhatIsNoDenseLayer(t *testing.T) {
	six := make([]float32, 6)
	for want, c := range map[string]struct {
		name    string
		in, out int
		w, b    []float32
		f       kernels.Activation
	}{
		"a dense layer has no name":                                             {"", 3, 2, six, nil, layers.Linear},
		"a weights: 5 values for a matrix of shape [2, 3]: it has 6":            {"a", 3, 2, six[:5], nil, layers.Linear},
		"b weights: 6 values for a matrix of shape [2, 2]: it has 4":            {"b", 2, 2, six, nil, layers.Linear},
		"c weights: 0 values for a matrix of shape [2, 3]: it has 6":            {"c", 3, 2, nil, nil, layers.Linear},
		"d bias: 3 values for a matrix of shape [1, 2]: it has 2":               {"d", 3, 2, six, six[:3], layers.Linear},
		"e bias: 0 values for a matrix of shape [1, 2]: it has 2":               {"e", 3, 2, six, six[:0], layers.Linear},
		"f weights: a matrix of shape [2, 0]: both must be from 1 to":           {"f", 0, 2, nil, nil, layers.Linear},
		"g weights: a matrix of shape [-1, 3]: both must be from 1 to":          {"g", 3, -1, nil, nil, layers.Linear},
		"h weights: a matrix of shape [9223372036854775807, 2]: both":           {"h", 2, math.MaxInt, six, nil, layers.Linear},
		"i weights: a matrix of shape [4611686018427387904, 4]: both":           {"i", 4, 1 << 62, nil, nil, layers.Linear},
		"j weights: 6 values for a matrix of shape [2147483648, 2147483648]: ":  {"j", 1 << 31, 1 << 31, six, nil, layers.Linear},
		"k: there is no activation 200: it may be Linear or one of [SiLU GELU ": {"k", 3, 2, six, nil, 200},
	} {
		l, err := layers.NewDense(c.name, c.in, c.out, c.w, c.b, c.f)
		require.ErrorContains(t, err, want)
		require.Nil(t, l)
	}
}

func TestWhatIsNoMatrixOfADenseLayer(t *testing.T) {
	data := make([]byte, 4*18)
	good := kernels.Matrix{Name: "w", Type: kernels.Q4_0, Rows: 4, Cols: 32, Data: data}
	bias := kernels.Matrix{Name: "b", Type: kernels.F16, Rows: 1, Cols: 4, Data: data[:8]}
	_, err := layers.DenseFromMatrix("a", good, bias, kernels.ReLU)
	require.NoError(t, err)
	with := func(m kernels.Matrix, change func(m *kernels.Matrix)) kernels.Matrix { change(&m); return m }
	for want, c := range map[string]struct{ w, b kernels.Matrix }{
		"w: 71 bytes for a matrix of Q4_0 of shape [4, 32]: it has 4 rows of 18 bytes": {with(good, func(m *kernels.Matrix) { m.Data = data[:71] }), bias},
		"w: a row of 33 elements is not a whole number of Q4_0 blocks":                 {with(good, func(m *kernels.Matrix) { m.Cols = 33 }), bias},
		"w: a matrix of shape [0, 32]":                                                 {with(good, func(m *kernels.Matrix) { m.Rows = 0 }), bias},
		"w: type 99 is not a type that Leat computes with":                             {with(good, func(m *kernels.Matrix) { m.Type = 99 }), bias},
		"w: type 0 is not a type that Leat computes with":                              {with(good, func(m *kernels.Matrix) { m.Type = 0 }), bias},
		"w: a weight can't be of I32":                                                  {with(good, func(m *kernels.Matrix) { m.Type = kernels.I32 }), bias},
		"a weights: 72 bytes for a matrix of F32 of shape [4, 32]":                     {with(good, func(m *kernels.Matrix) { m.Name, m.Type = "", kernels.F32 }), bias},
		"w: 72 bytes for a matrix of Q4_0 of shape [2147483648, 2147483648]":           {with(good, func(m *kernels.Matrix) { m.Rows, m.Cols = 1<<31, 1<<31 }), bias},
		"b: a bias of F16 of shape [1, 3]: it must be [1, 4] of F32, F16 or BF16":      {good, with(bias, func(m *kernels.Matrix) { m.Cols, m.Data = 3, data[:6] })},
		"b: a bias of Q4_0 of shape [4, 32]: it must be [1, 4]":                        {good, with(good, func(m *kernels.Matrix) { m.Name = "b" })},
		"b: 6 bytes for a matrix of F16 of shape [1, 4]":                               {good, with(bias, func(m *kernels.Matrix) { m.Data = data[:6] })},
		"a bias: type 0 is not a type":                                                 {good, kernels.Matrix{Rows: 1, Cols: 4}},
		"a bias: a matrix of shape [0, 0]":                                             {good, kernels.Matrix{Data: data}},
	} {
		l, err := layers.DenseFromMatrix("a", c.w, c.b, kernels.ReLU)
		require.ErrorContains(t, err, want)
		require.Nil(t, l)
	}
}

// activation is f in float64.
func activation(f kernels.Activation, x float64) float64 {
	switch f {
	case kernels.SiLU:
		return x / (1 + math.Exp(-x))
	case kernels.GELU:
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case kernels.GELUErf:
		return x / 2 * (1 + math.Erf(x/math.Sqrt2))
	case kernels.ReLU:
		return max(x, 0)
	case kernels.ReLUSquared:
		return max(x, 0) * max(x, 0)
	case kernels.Tanh:
		return math.Tanh(x)
	case kernels.Sigmoid:
		return 1 / (1 + math.Exp(-x))
	}
	return x
}

// A layer computes what its comment says, with a bias and without.
func TestDense(t *testing.T) {
	const in, out, rows = 37, 21, 3
	w, b, x := values(1, in*out), values(2, out), values(3, rows*in)
	list := stagetest.Devices(t, "cpu")
	for _, f := range append(kernels.Activations(), layers.Linear) {
		for _, bias := range [][]float32{nil, b} {
			l, err := layers.NewDense("a", in, out, w, bias, f)
			require.NoError(t, err)
			assert.Equal(t, stage.Shape{Input: in, Width: out}, l.Shape())
			p, err := pipeline.New(t.Context(), []stage.Layer{l}, pipeline.WithInput(in), pipeline.WithDevices(list))
			require.NoError(t, err)
			y, err := p.Do(t.Context(), x)
			require.NoError(t, err)
			require.NoError(t, p.Close())
			for row := range rows {
				for j := range out {
					sum, size := 0.0, 1.0
					if bias != nil {
						sum = float64(bias[j])
					}
					for k := range in {
						term := float64(x[row*in+k]) * float64(w[j*in+k])
						sum, size = sum+term, size+math.Abs(term)
					}
					if f == kernels.ReLUSquared {
						size *= size
					}
					require.InDelta(t, activation(f, sum), y[row*out+j], 1e-5*size, "%v, row %d, column %d", f, row, j)
				}
			}
		}
	}
}

// The widths of neighbours are compared before anything is loaded.
func TestLayersThatDoNotFit(t *testing.T) {
	_, err := pipeline.New(t.Context(), []stage.Layer{dense(t, "a", 4, 6, kernels.ReLU), dense(t, "b", 5, 2, layers.Linear)},
		pipeline.WithInput(4), pipeline.WithDevices("cpu"))
	require.ErrorContains(t, err, "b reads rows of 5 numbers, and a writes rows of 6")
}

// kinds are those of the devices that tests with the devices of stagetest run on.
func kinds() []device.Kind {
	if os.Getenv(stagetest.Variable) == "" {
		return []device.Kind{device.CPU}
	}
	return []device.Kind{device.CPU, device.CUDA}
}

// mixed is a network of every type of weight that devices of these kinds can have, and of
// a function.
func mixed(t testing.TB, on ...device.Kind) []stage.Layer {
	rng := kerneltest.NewRand(7)
	network := []stage.Layer{dense(t, "first", 40, 256, kernels.Tanh)}
	for _, typ := range kernels.WeightTypes() {
		if slices.ContainsFunc(on, func(k device.Kind) bool {
			_, err := layers.Cost(device.Info{Kind: k}, kernels.Matrix{Type: typ, Rows: 256, Cols: 256})
			return err != nil
		}) {
			continue
		}
		l, err := layers.DenseFromMatrix(typ.String(), kerneltest.Matrix(rng, typ, 256, 256), kernels.Matrix{}, kernels.Tanh)
		require.NoError(t, err)
		network = append(network, l)
	}
	return append(network,
		function(t, "half", 256, 128, func(dst, src []float32) error {
			for i := range dst {
				dst[i] = src[2*i] - src[2*i+1]
			}
			return nil
		}),
		dense(t, "last", 128, 10, layers.Linear))
}

// The results have the same bits on one stage and on several, in replicas, and however
// the rows are divided among calls that run at the same time.
func TestSameBitsEverywhere(t *testing.T) {
	const rows = 48
	x := values(9, rows*40)
	var want []float32
	for _, list := range []string{"cpu", "cpu/2", "cpu/3", "cpu:0|cpu:0", "cpu:0,cpu:0|cpu:0"} {
		p := open(t, mixed(t, kinds()...), 40, pipeline.WithDevices(stagetest.OneKind(t, list)), pipeline.WithMaxBatch(16))
		for _, n := range []int{rows, 1, 7} {
			got := together(t, p, x, n)
			if want == nil {
				want = got
			}
			kerneltest.SameBits(t, want, got, "on %s in calls of %d rows", list, n)
		}
	}
}

// What isn't a number stays in its row, whatever shares its batch.
func TestNaNStaysInItsRow(t *testing.T) {
	const rows, bad = 5, 2
	p := open(t, mixed(t, kinds()...), 40, pipeline.WithDevices(stagetest.Devices(t, "cpu/2")))
	x := values(4, rows*40)
	want := together(t, p, x, rows)
	for _, v := range []float32{kerneltest.NaN, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32} {
		spoilt := append([]float32(nil), x...)
		spoilt[bad*40+3] = v
		got := together(t, p, spoilt, rows)
		kerneltest.SameBits(t, want[:bad*10], got[:bad*10], "rows before one with %v", v)
		kerneltest.SameBits(t, want[(bad+1)*10:], got[(bad+1)*10:], "rows after one with %v", v)
	}
	l, err := layers.NewDense("a", 2, 2, []float32{1, 1, kerneltest.NaN, 1}, nil, kernels.ReLU)
	require.NoError(t, err)
	p = open(t, []stage.Layer{l}, 2, pipeline.WithDevices(stagetest.Devices(t, "cpu")))
	kerneltest.SameBits(t, []float32{3, kerneltest.NaN}, together(t, p, []float32{1, 2}, 1), "a weight that isn't a number")
}
