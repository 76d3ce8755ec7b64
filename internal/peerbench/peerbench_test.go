package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/ceiling"
	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/kernels"
)

func TestParse(t *testing.T) {
	o, err := parse(nil, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, []string{"Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "MXFP4"}, o.types)
	o, err = parse([]string{"-types", "Q2_K,F32"}, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, []string{"Q2_K", "F32"}, o.types)
	for _, args := range [][]string{{"-types", "Q9"}, {"-rounds", "-1"}, {"more"}, {"-limit", "0s"}} {
		_, err := parse(args, &bytes.Buffer{})
		assert.Error(t, err, args)
	}
}

// Every type of weights has a row, so that none is forgotten in a table.
func TestEveryTypeHasARow(t *testing.T) {
	for _, typ := range kernels.WeightTypes() {
		_, ok := rowOf(typ.String())
		assert.True(t, ok, typ)
	}
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		typ, test, level, want string
		cell                   cell
		met                    bool
	}{
		{"Q8_0", prefill128, "avx512-vnni", "2.8", cell{Ratio: 2.8}, true},
		{"Q8_0", prefill512, "avx512-vnni", "2.8", cell{Ratio: 2.7, Share: 0.9}, false},
		{"Q8_0", decode1, "avx512-vnni", "1.5, or 90 % of read", cell{Ratio: 1.2, Share: 0.9}, true},
		{"Q2_K", decode16, "avx512-vnni", "1.5", cell{Ratio: 1.4}, false},
		{"Q8_0", prefill128, "avx2", "80 % of int8-avx2", cell{Ratio: 0.5, Share: 0.8}, true},
		{"F16", prefill128, "avx512", "95 % of fma", cell{Ratio: 9, Share: 0.9}, false},
		{"F32", decode16, "avx2", "85 % of fma-avx2", cell{Share: 0.85}, true},
		{"BF16", prefill128, "avx512-bf16", "1.7 × F16", cell{F16: 1.75}, true},
		{"BF16", prefill128, "avx512-vnni", "95 % of fma", cell{F16: 1.75}, false},
	} {
		r, ok := rowOf(c.typ)
		require.True(t, ok)
		g := r.goal(c.test, c.level)
		assert.Equal(t, c.want, g.String())
		assert.Equal(t, c.met, g.met(c.cell), "%s %s at %s", c.typ, c.test, c.level)
	}
}

func TestMedian(t *testing.T) {
	assert.Equal(t, 2.0, speeds{"x": {3, 1, 2}}.median("x"))
	assert.Equal(t, 1.5, speeds{"x": {2, 1}}.median("x"))
	assert.Zero(t, speeds{}.median("x"))
}

// script writes a program that a bench can run.
func script(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

const leatPrints = `{"simd":"avx512","results":[
	{"test":"prefill","tokens":128,"concurrency":1,"tps":300},{"test":"prefill","tokens":512,"concurrency":1,"tps":200},
	{"test":"decode","tokens":24,"concurrency":1,"tps":30},{"test":"decode","tokens":24,"concurrency":4,"tps":1},
	{"test":"decode","tokens":24,"concurrency":16,"tps":100}]}`

func newBench(t *testing.T, leat, peer string) *bench {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	b := &bench{log: os.Stderr, options: options{cache: t.TempDir(), limit: time.Minute, repeat: 1}}
	b.leat, b.peer = script(t, "leat", leat), script(t, "peer", peer)
	b.report.Ceilings = []ceiling.Rate{{Name: ceiling.Read, Unit: "B", All: 1e9}}
	model := gguftest.Llama{}.Build()
	for _, name := range []string{"Q8_0-2.gguf", "F16-2.gguf", "BF16-2.gguf"} {
		require.NoError(t, os.WriteFile(filepath.Join(b.cache, name), model, 0o644))
	}
	return b
}

func TestMeasure(t *testing.T) {
	b := newBench(t, "cat <<'X'\n"+leatPrints+"\nX", `echo '{"commit":"abc","pp128":100,"pp512":100,"tg1":20,"tg16":50}'`)
	for _, typ := range []string{"Q8_0", "F16", "BF16"} {
		r, _ := rowOf(typ)
		r.layers, r.rounds = 2, 2
		require.NoError(t, b.measure(t.Context(), r))
	}
	b.report.raise([]ceiling.Rate{{Name: ceiling.Read, Unit: "B", One: 2, All: 5e5}})
	assert.Equal(t, 1e9, b.report.Ceilings[0].All, "the highest counts")
	b.report.judge()
	assert.Equal(t, "abc", b.report.Peer)
	assert.Equal(t, "avx512", b.report.SIMD)
	require.Len(t, b.report.Cells, 12)
	c := b.report.Cells[0]
	assert.Equal(t, "Q8_0 pp128", c.Type+" "+c.Test)
	assert.Equal(t, 3.0, c.Ratio)
	assert.True(t, c.Met)
	assert.Equal(t, []float64{300, 300}, c.LeatRounds)
	assert.Equal(t, 1.0, b.report.Cells[8].F16, "BF16 is compared to F16")

	// Heads and embeddings: 320 rows of 64 columns. A block has 4 heads of 16, 2 of keys.
	w, err := weigh(filepath.Join(b.cache, "F16-2.gguf"))
	require.NoError(t, err)
	assert.EqualValues(t, 2*(2*64*64+2*64*32+3*64*128), w.prefill)
	assert.EqualValues(t, w.prefill+320*64, w.decode)

	b.report.look()
	page := b.report.markdown()
	assert.Contains(t, page, "| Q8_0 | 2 | prefill 128 | 300.0 | 100.0 | 3.00 | 2.8 | yes | – |")
	assert.Contains(t, page, "| Q8_0 | 2 | decode 1 | 30.0 | 20.0 | 1.50 | 1.5, or 90 % of read | yes |")
	data, err := json.Marshal(&b.report)
	require.NoError(t, err)
	assert.Contains(t, string(data), `"test":"tg16","leat":100,"peer":50,"ratio":2`)
}

func TestATypeThatIsRefused(t *testing.T) {
	r, _ := rowOf("Q8_0")
	r.layers, r.rounds = 2, 3
	b := newBench(t, "echo 'leat: no such type' >&2; exit 1", "exit 1")
	require.NoError(t, b.measure(t.Context(), r))
	assert.Equal(t, []string{"Q8_0: Leat: leat: exit status 1: leat: no such type"}, b.report.Refused)
	assert.Empty(t, b.report.Cells)

	b = newBench(t, "cat <<'X'\n"+leatPrints+"\nX", "echo unknown type >&2; exit 3")
	require.NoError(t, b.measure(t.Context(), r))
	assert.Equal(t, []string{"Q8_0: the peer: peer: exit status 3: unknown type"}, b.report.Refused)
	require.Len(t, b.report.Cells, 4, "Leat's speeds are still shown")
	b.report.judge()
	assert.Contains(t, b.report.markdown(), "| prefill 128 | 300.0 | – | – |")
}

func TestTimeIsLimited(t *testing.T) {
	r, _ := rowOf("Q8_0")
	r.layers, r.rounds = 2, 1
	b := newBench(t, "exec sleep 60", "exit 1")
	b.limit = 50 * time.Millisecond
	require.NoError(t, b.measure(t.Context(), r))
	assert.Equal(t, []string{"Q8_0: Leat: leat took longer than -limit allows"}, b.report.Refused)

	ctx, cancel := context.WithCancel(t.Context())
	b.limit = time.Minute
	time.AfterFunc(50*time.Millisecond, cancel)
	assert.ErrorIs(t, b.measure(ctx, r), context.Canceled)
}
