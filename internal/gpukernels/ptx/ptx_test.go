package ptx_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gpukernels/ptx"
	"github.com/leat-dev/leat/internal/gpukernels/source"
)

// The PTX in the tree was made from the source in the tree. Whether it is what the
// compiler makes of it, make kernels-check says.
func TestCurrent(t *testing.T) {
	stamp, err := source.Stamp()
	require.NoError(t, err)
	first, _, _ := bytes.Cut(ptx.Kernels, []byte("\n"))
	assert.Equal(t, stamp, string(bytes.TrimSuffix(first, []byte("\r"))),
		"the kernels' source or the compiler's options changed: run make kernels")
}

func TestTarget(t *testing.T) {
	assert.Regexp(t, `(?m)^\.version `+regexp.QuoteMeta(ptx.Version)+`\r?$`, string(ptx.Kernels), "ptx.Version and ptx.Driver are of another version")
	assert.Regexp(t, `(?m)^\.target sm_75\r?$`, string(ptx.Kernels))
}

// Every kernel of the source is an entry of the PTX, and there are no others.
func TestKernels(t *testing.T) {
	headers, err := source.Headers()
	require.NoError(t, err)
	var want []string
	for _, text := range headers {
		for _, m := range regexp.MustCompile(`(?m)^KERNEL\((\w+),`).FindAllSubmatch(text, -1) {
			want = append(want, string(m[1]))
		}
	}
	var got []string
	for _, m := range regexp.MustCompile(`\.visible \.entry (\w+)\(`).FindAllSubmatch(ptx.Kernels, -1) {
		got = append(got, string(m[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	assert.NotEmpty(t, want)
	assert.Equal(t, want, got)
}

// A driver may fuse a product and a sum that don't say how they are rounded, and an
// approximation differs from one GPU to the next.
func TestArithmeticIsExact(t *testing.T) {
	inexact := regexp.MustCompile(`(?m)^\s*(?:@!?%p\d+\s+)?((add|sub|mul)\.f(32|16)|mad(\.\w+)*\.f32|\w+\.approx|\w+(\.\w+)*\.ftz|\w+\.full)\b.*$`)
	require.Regexp(t, inexact, "\tmul.f32 \t%f1, %f2, %f3;")
	require.Regexp(t, inexact, "\tdiv.approx.f32 \t%f1, %f2, %f3;")
	require.Regexp(t, inexact, "\tmul.rn.ftz.f32 \t%f1, %f2, %f3;")
	require.Regexp(t, inexact, "\t@%p1 add.f32 \t%f1, %f2, %f3;")
	assert.Empty(t, inexact.FindAllString(string(ptx.Kernels), -1))
	assert.Contains(t, string(ptx.Kernels), "mul.rn.f32", "products are named otherwise: then the pattern proves nothing")
	assert.NotContains(t, string(ptx.Kernels), ".f64")
}

// instruction is one of the PTX by the opcode in a submatch.
var instruction = regexp.MustCompile(`(?m)^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)[^\n]*;`)

// opcodes returns how often each kernel has each instruction.
func opcodes(t *testing.T) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, entry := range strings.Split(string(ptx.Kernels), ".visible .entry ")[1:] {
		name, body, _ := strings.Cut(entry, "(")
		all[name] = map[string]int{}
		for _, m := range instruction.FindAllStringSubmatch(body, -1) {
			all[name][m[1]]++
		}
		require.Positive(t, all[name]["ret"], name)
	}
	return all
}

// fused are the kernels whose source has FMA; in all others every product is rounded.
// The exponential is ten, sine and cosine together fifteen.
var fused = regexp.MustCompile(`^leat_(rms_norm|layer_norm|rope|activate|gated|soft_cap|attention_\w+|product_(one|many)_(f32|f16|bf16)|ceiling_fma)$`)

func TestFusedWhereTheSourceSaysSo(t *testing.T) {
	for name, ops := range opcodes(t) {
		assert.Equal(t, fused.MatchString(name), ops["fma.rn.f32"] > 0, "%s: %d fused operations", name, ops["fma.rn.f32"])
		switch name {
		case "leat_soft_cap":
			assert.Equal(t, 10, ops["fma.rn.f32"], name)
		case "leat_rope":
			assert.Equal(t, 15, ops["fma.rn.f32"], name)
		}
	}
}

// All memory is known to be global, shared or a parameter; nothing lies in a thread's
// own memory, where arrays go whose indices the compiler can't tell. Weights, caches and
// tiles are read 16 bytes at a time. Integer products are dp4a.
func TestMemory(t *testing.T) {
	known := regexp.MustCompile(`^(ld|st|atom|red)\.(global|shared|param)\.`)
	some := regexp.MustCompile(`^(ld|st|atom|red)\.`)
	for name, ops := range opcodes(t) {
		for op := range ops {
			assert.True(t, !some.MatchString(op) || known.MatchString(op), "%s has %s", name, op)
		}
		if strings.HasPrefix(name, "leat_product_") || strings.HasPrefix(name, "leat_attention_") {
			assert.Positive(t, ops["ld.global.v4.u32"]+ops["ld.global.v4.f32"], name)
		}
		if strings.HasPrefix(name, "leat_product_many_") {
			assert.Positive(t, ops["ld.shared.v4.u32"]+ops["ld.shared.v4.f32"], name)
			assert.Positive(t, ops["st.shared.v4.u32"]+ops["st.shared.v4.f32"], name)
		}
		if strings.HasPrefix(name, "leat_product_") {
			assert.Equal(t, !fused.MatchString(name), ops["dp4a.s32.s32"] > 0, name)
		}
	}
	assert.NotContains(t, string(ptx.Kernels), ".local ")
	assert.NotContains(t, string(ptx.Kernels), "__local_depot")
}
