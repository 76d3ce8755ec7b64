package gpu

import (
	"math"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	_ "github.com/leat-dev/leat/device/cpu"
	_ "github.com/leat-dev/leat/device/cuda"
	"github.com/leat-dev/leat/internal/emulator"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
	_ "github.com/leat-dev/leat/kernels/cpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hardware says that the tests run on a machine's own GPU, as make gpu-check does.
var hardware = os.Getenv("LEAT_GPU_CHECK") == "1"

// gpu is the op set on the machine's GPU, or an emulated one, whose own findings fail
// the test.
var gpu = kerneltest.Backend{
	Open:       open,
	Types:      weightTypes,
	Memory:     func(c kernels.Cache) device.Buffer { return c.(*cache).buf },
	Token:      token,
	Segment:    segment,
	ArgMaxCols: threads,
	// A thread's sum rounds cols/256 times, their sum 8 times: a root takes half of
	// that. Then 5 operations.
	RMSNorm:  func(cols int) float64 { return (float64(ceil(cols, threads)+8)/2 + 5) * 0x1p-24 },
	RoPE:     2e-7 + 2*0x1p-24, // of sine and cosine; then each product and the sum rounds
	Slow:     !hardware,
	Refusals: refusals,
}

func open(t testing.TB) device.Device {
	if !hardware {
		emulator.Use(t, emulator.Machine{GPUs: 1})
	}
	return kerneltest.Open(t, "cuda:0")
}

// machine makes the emulated GPUs that a test needs.
func machine(t testing.TB, m emulator.Machine) {
	if hardware {
		t.Skip("needs emulated GPUs: LEAT_GPU_CHECK asks for the machine's own")
	}
	emulator.Use(t, m)
}

// token reads a page by the picture in source/params.h.
func token(s kernels.CacheSpec, mem []byte, page, head, token int) (k, v []float64) {
	_, size := s.Type.Block()
	row := ceil(s.HeadDim*size, chunk) * chunk
	if s.Type == kernels.Q8_0 {
		row = s.HeadDim / block * size
	}
	half := kernels.PageTokens * row
	keys := mem[(page*s.Heads+head)*2*half:][:half]
	values := mem[(page*s.Heads+head)*2*half+half:][:half]
	for d := range s.HeadDim {
		switch s.Type {
		case kernels.Q8_0:
			number := func(page []byte, scale, q int) float64 {
				return float64(kernels.Float16frombits(le.Uint16(page[scale:]))) * float64(int8(page[q]))
			}
			scales := s.HeadDim / 32 * 64
			k = append(k, number(keys, (d/32*32+token)*2, scales+(d/16*32+token)*16+d%16))
			v = append(v, number(values, (token*s.HeadDim/32+d/32)*2, scales+token*s.HeadDim+d))
		default:
			chunks := row / chunk
			read := func(b []byte) float64 {
				if size == 2 {
					return float64(kernels.Float16frombits(le.Uint16(b)))
				}
				return float64(math.Float32frombits(le.Uint32(b)))
			}
			c, in := d*size/chunk, d*size%chunk
			k = append(k, read(keys[(c*32+token)*16+in:]))
			v = append(v, read(values[(token*chunks+c)*16+in:]))
		}
	}
	return k, v
}

func TestEmbed(t *testing.T)     { kerneltest.Embed(t, gpu) }
func TestRMSNorm(t *testing.T)   { kerneltest.RMSNorm(t, gpu) }
func TestMatMul(t *testing.T)    { kerneltest.MatMul(t, gpu) }
func TestRoPE(t *testing.T)      { kerneltest.RoPE(t, gpu) }
func TestStoreKV(t *testing.T)   { kerneltest.StoreKV(t, gpu) }
func TestAttention(t *testing.T) { kerneltest.Attention(t, gpu) }
func TestLayerNorm(t *testing.T) { kerneltest.LayerNorm(t, gpu) }
func TestVectors(t *testing.T)   { kerneltest.Vectors(t, gpu) }
func TestActivate(t *testing.T)  { kerneltest.Activate(t, gpu) }
func TestGated(t *testing.T)     { kerneltest.Gated(t, gpu) }
func TestScale(t *testing.T)     { kerneltest.Scale(t, gpu) }
func TestSoftCap(t *testing.T)   { kerneltest.SoftCap(t, gpu) }
func TestAddBias(t *testing.T)   { kerneltest.AddBias(t, gpu) }
func TestAdd(t *testing.T)       { kerneltest.Add(t, gpu) }
func TestGather(t *testing.T)    { kerneltest.Gather(t, gpu) }
func TestArgMax(t *testing.T)    { kerneltest.ArgMax(t, gpu) }
func TestTopK(t *testing.T)      { kerneltest.TopK(t, gpu) }

func TestPack(t *testing.T)      { kerneltest.Pack(t, gpu) }
func TestMemory(t *testing.T)    { kerneltest.Memory(t, gpu) }
func TestOpsRefuse(t *testing.T) { kerneltest.Refuse(t, gpu) }
func TestErrors(t *testing.T)    { kerneltest.Errors(t, gpu) }
