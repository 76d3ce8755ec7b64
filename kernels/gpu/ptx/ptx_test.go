package ptx_test

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels/gpu/ptx"
	"github.com/leat-dev/leat/kernels/gpu/source"
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
	inexact := regexp.MustCompile(`(?m)^\s*((add|sub|mul)\.f(32|16)|\w+\.approx|\w+(\.\w+)*\.ftz|\w+\.full)\b.*$`)
	require.Regexp(t, inexact, "\tmul.f32 \t%f1, %f2, %f3;")
	require.Regexp(t, inexact, "\tdiv.approx.f32 \t%f1, %f2, %f3;")
	require.Regexp(t, inexact, "\tmul.rn.ftz.f32 \t%f1, %f2, %f3;")
	assert.Empty(t, inexact.FindAllString(string(ptx.Kernels), -1))
	assert.Contains(t, string(ptx.Kernels), "mul.rn.f32", "products are named otherwise: then the pattern proves nothing")
	assert.NotContains(t, string(ptx.Kernels), ".f64")
}
