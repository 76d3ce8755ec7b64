package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/kernels"
)

func TestReport(t *testing.T) {
	r := report{title: "Leat on a GPU"}
	require.Contains(t, r.markdown(), "**nothing was run**")
	r.steps = 1
	require.Contains(t, r.markdown(), "**right**")
	r.skip("attention", "%d s were left", 3)
	require.Contains(t, r.markdown(), "**right as far as it was run**")
	r.fail("kernel tests", errors.New("two failed\nTestOne\nTestTwo\n"))
	r.add(section{title: "Sizes", lines: []string{"a line"}, table: [][]string{{"what", "µs"}, {"one", "2"}}, note: "A note."})
	require.Equal(t, `# Leat on a GPU

Result: **WRONG**, in 0 s.

- WRONG: kernel tests: two failed

`+"```\nTestOne\nTestTwo\n```"+`

Not run:

- attention: 3 s were left

## Sizes

- a line

| what | µs |
| --- | ---: |
| one | 2 |

A note.
`, r.markdown())
}

func TestOutcomesOfTests(t *testing.T) {
	o := outcomesOf(`=== RUN   TestA
=== RUN   TestA/part
    --- FAIL: TestA/part (0.00s)
--- FAIL: TestA (0.00s)
=== RUN   TestB
    errors_test.go:9:
        | op | error |
        | --- | --- |
        | Add | 0 |

    rig_test.go:31: it needs two GPUs
--- SKIP: TestB (0.00s)
=== RUN   TestC
--- PASS: TestC (1.20s)
FAIL
`)
	require.Equal(t, outcomes{
		passed: []string{"TestC"}, failed: []string{"TestA"}, skipped: []string{"TestB: it needs two GPUs"},
		said:   "=== RUN   TestA\n=== RUN   TestA/part\n    --- FAIL: TestA/part (0.00s)\n--- FAIL: TestA (0.00s)\n",
		tables: []string{"| op | error |", "| --- | --- |", "| Add | 0 |"},
	}, o)
}

func TestModelHasTheParametersThatItsNameSays(t *testing.T) {
	require.Equal(t, "1.1 billion", count(fullModel.parameters()))
	// By hand: of a block 2·2048² and 2·2048·512 for attention, 3·2048·8192 for the rest.
	require.Equal(t, 16*(8388608+2097152+50331648), fullModel.blocks())
	require.Equal(t, 65536000, fullModel.head())
	require.Equal(t, 2.0*(973078528+65536000), fullModel.bytes(kernels.F16))
	require.Equal(t, (973078528+65536000)/32*18.0, fullModel.bytes(kernels.Q4_0))
}

func TestIdealIsTheSlowerOfTheTwo(t *testing.T) {
	c := check{most: ceilings{copied: 1e9, fma: 1e12}}
	require.EqualValues(t, 2e9, c.ideal(work{bytes: 2e9, macs: 1e12, rate: 1e12}))
	require.EqualValues(t, 3e9, c.ideal(work{bytes: 2e9, macs: 3e12, rate: 1e12}))
	require.Equal(t, "50 %", c.ofCeiling(work{bytes: 2e9}, 4e9))
	require.Equal(t, "–", (&check{}).ofCeiling(work{bytes: 2e9}, 0))
}

func TestDistance(t *testing.T) {
	require.Zero(t, distance([]float32{1, 2}, []float32{1, 2}))
	require.InDelta(t, 0.2, distance([]float32{3, 5}, []float32{3, 4}), 1e-7)
	require.True(t, math.IsNaN(distance([]float32{1}, []float32{1, 2})))
	require.True(t, math.IsNaN(distance([]float32{float32(math.NaN())}, []float32{1})))
}

// Every type's numbers are finite and of a size that sums of thousands keep so.
func TestMatrixHasOrdinaryScales(t *testing.T) {
	for _, typ := range weightTypes {
		const rows, cols = 70, 512
		m, err := matrix(typ, rows, cols)
		require.NoError(t, err)
		elems, size := typ.Block()
		require.Len(t, m.Data, rows*cols/elems*size)
		require.False(t, bytes.Equal(m.Data[:size], m.Data[size:2*size]), "blocks differ")
		at := map[kernels.Type][]int{kernels.Q8_0: {0}, kernels.Q4_0: {0}, kernels.Q4_K: {0, 2}, kernels.Q6_K: {208}, kernels.F16: {0}}[typ]
		for b := m.Data; len(b) > 0; b = b[size:] {
			for _, i := range at {
				v := kernels.Float16frombits(binary.LittleEndian.Uint16(b[i:]))
				require.True(t, v > 1e-5 && v < 2, "%v: a scale of %v", typ, v)
			}
		}
	}
	_, err := matrix(kernels.Q4_K, 1, 100)
	require.Error(t, err)
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-budget", "0s"}, {"more"}, {"-nothing"}} {
		var out, said bytes.Buffer
		require.Equal(t, 2, run(context.Background(), args, &out, &said), "%v", args)
		require.Empty(t, out.String())
		require.NotEmpty(t, said.String())
	}
}
