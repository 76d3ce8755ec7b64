package cpu

import (
	"encoding/binary"
	"math"
	"testing"

	"go.uber.org/goleak"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/kerneltest"
	"github.com/leat-dev/leat/kernels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cores is the op set on all of the machine's cores, which has the bits of one.
var cores = kerneltest.Backend{
	Open:       func(t testing.TB) device.Device { return kerneltest.CPU(t, 0) },
	Alike:      oneCore,
	Memory:     func(c kernels.Cache) device.Buffer { return c.(*cache).buf },
	Token:      token,
	ArgMaxCols: argmaxCols,
	RMSNorm:    func(int) float64 { return 0x1p-22 }, // the sum is float64's, and 4 roundings follow
	RoPE:       3 * 0x1p-24,                          // of sine and cosine, of the products and of the sum
	Refusals:   refusals,
}

func oneCore(t testing.TB) []device.Device {
	d := kerneltest.CPU(t, 1)
	if all, _ := device.Resolve("cpu", 0); len(all[0].Info.Cores) == 1 {
		t.Log("this machine has one core: both devices are the same size")
	}
	return []device.Device{d}
}

// token reads a page by the layout that type cache documents.
func token(s kernels.CacheSpec, mem []byte, page, head, token int) (k, v []float64) {
	const tokens = kernels.PageTokens
	keyBytes, valueBytes, _, _ := cacheSizes(s)
	c := cache{spec: s, keys: int(keyBytes), values: int(valueBytes)}
	keys, values := c.page(mem, page, head)
	for d := range s.HeadDim {
		kAt := (token/16*s.HeadDim+d)*16 + token%16
		vAt := (d/16*tokens+token)*16 + d%16
		switch s.Type {
		case kernels.F32:
			k = append(k, float64(float32s(keys)[kAt]))
			v = append(v, float64(float32s(values)[vAt]))
		case kernels.F16:
			k = append(k, float64(kernels.Float16frombits(uint16s(keys)[kAt])))
			v = append(v, float64(kernels.Float16frombits(uint16s(values)[vAt])))
		case kernels.Q8_0:
			number := func(page []byte, scale, q int) float64 {
				return float64(kernels.Float16frombits(binary.LittleEndian.Uint16(page[scale:]))) * float64(int8(page[q]))
			}
			kAt := (token/16*s.HeadDim + d/32*32) * 17 // 16 bytes an element, and a 32nd of 16 scales
			k = append(k, number(keys, kAt+token%16*2, kAt+32+d%32*16+token%16))
			vAt := (token*s.HeadDim + d) / 32 * 34
			v = append(v, number(values, vAt, vAt+2+d%32))
		}
	}
	return k, v
}

// refusals name the first of several rows that are wrong, with its position.
var refusals = []kerneltest.Refusal{
	{Op: "Embed", Spoil: func(l *kerneltest.Layer) { l.Rows.Outputs = 1 }, Wants: []string{"40 rows, 2 outputs"}},
	{Op: "MatMul", Spoil: func(l *kerneltest.Layer) { l.Products[2].W = (*weight)(nil) }, Wants: []string{"weight"}},
	kerneltest.Header("StoreKV", func(h *kernels.Header) { h.Positions[5] = 64 }, "row 5 at position 64", "word 2", "have 2"),
	kerneltest.Header("StoreKV", func(h *kernels.Header) { h.Pages[1] = 3 }, "row 32", "page 3 of a cache of 3"),
	kerneltest.Header("StoreKV", func(h *kernels.Header) { h.Pages[1] = -3 }, "row 32", "page -3"),
	{Op: "StoreKV", Spoil: func(l *kerneltest.Layer) { l.Rows.Base = 1 }, Wants: []string{"row 0", "page 2 from page 1 on", "cache of 3"}},
	{Op: "StoreKV", Spoil: func(l *kerneltest.Layer) { l.Rows.Base = math.MaxInt }, Wants: []string{"row 0", "page 2 from page", "cache of 3"}},
	{Op: "Attention", Spoil: func(l *kerneltest.Layer) { l.Rows.Base = 1 }, Wants: []string{"page 2 from page 1 on", "cache of 3"}},
	kerneltest.Header("Attention", func(h *kernels.Header) { h.Positions[5] = math.MaxInt32 }, "row 5 at position 2147483647", "have 2"),
	kerneltest.Header("Attention", func(h *kernels.Header) { h.Pages[0] = 9 }, "page 9 of a cache of 3"),
}

func TestEmbed(t *testing.T)     { kerneltest.Embed(t, cores) }
func TestRMSNorm(t *testing.T)   { kerneltest.RMSNorm(t, cores) }
func TestMatMul(t *testing.T)    { kerneltest.MatMul(t, cores) }
func TestRoPE(t *testing.T)      { kerneltest.RoPE(t, cores) }
func TestStoreKV(t *testing.T)   { kerneltest.StoreKV(t, cores) }
func TestAttention(t *testing.T) { kerneltest.Attention(t, cores) }
func TestLayerNorm(t *testing.T) { kerneltest.LayerNorm(t, cores) }
func TestVectors(t *testing.T)   { kerneltest.Vectors(t, cores) }
func TestActivate(t *testing.T)  { kerneltest.Activate(t, cores) }
func TestGated(t *testing.T)     { kerneltest.Gated(t, cores) }
func TestScale(t *testing.T)     { kerneltest.Scale(t, cores) }
func TestSoftCap(t *testing.T)   { kerneltest.SoftCap(t, cores) }
func TestAddBias(t *testing.T)   { kerneltest.AddBias(t, cores) }
func TestAdd(t *testing.T)       { kerneltest.Add(t, cores) }
func TestGather(t *testing.T)    { kerneltest.Gather(t, cores) }
func TestArgMax(t *testing.T)    { kerneltest.ArgMax(t, cores) }
func TestTopK(t *testing.T)      { kerneltest.TopK(t, cores) }

func TestPack(t *testing.T)               { kerneltest.Pack(t, cores) }
func TestMemory(t *testing.T)             { kerneltest.Memory(t, cores) }
func TestOpsAllocateNothing(t *testing.T) { kerneltest.Allocations(t, cores) }
func TestOpsRefuse(t *testing.T)          { kerneltest.Refuse(t, cores) }
func TestErrors(t *testing.T)             { kerneltest.Errors(t, cores) }
