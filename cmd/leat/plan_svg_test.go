package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/internal/gguftest"
	"github.com/leat-dev/leat/pipeline"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The picture of one plan is as it was when somebody looked at it last.
func TestPlanPicture(t *testing.T) {
	const golden = "testdata/plan.svg"
	picture := estimated(t, storiesFile, "cpu:0=4MiB@3,cpu:1=2MiB@2,cpu:2=9MiB@2", "--max-seqs", "8", "--svg", "-")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(picture), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.True(t, string(want) == picture, "look at the new picture, then run this test with -update")
}

// drawn is an element of a picture with its attributes.
type drawn struct {
	name, text string
	attributes map[string]string
}

func (s drawn) number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s.attributes[name], 64)
	require.NoError(t, err, s)
	return x
}

// drawing reads a picture, which must be well-formed XML that names nothing
// outside itself.
func drawing(t *testing.T, picture string) []drawn {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	var all []drawn
	var open []int
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, picture)
		switch x := token.(type) {
		case xml.StartElement:
			s := drawn{name: x.Name.Local, attributes: map[string]string{}}
			for _, a := range x.Attr {
				s.attributes[a.Name.Local] = a.Value
				assert.NotContains(t, a.Value, "NaN")
				assert.NotContains(t, a.Value, "Inf")
			}
			assert.NotContains(t, []string{"script", "image", "use", "foreignObject"}, s.name)
			open = append(open, len(all))
			all = append(all, s)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				all[open[len(open)-1]].text += string(x)
			}
		}
	}
}

// Whatever the plan, its picture is well-formed, stays on its paper, and no two
// texts of a line touch.
func TestPlanPictures(t *testing.T) {
	large := llama(t, gguftest.Llama{Blocks: 80, Vocab: 2000})
	hostile := llama(t, gguftest.Llama{KVs: []gguftest.KV{
		{Key: "general.name", Value: "<b>&\"'\x1b]]>\xff" + strings.Repeat("W", 300)},
	}})
	var many []string
	for i := range 16 {
		many = append(many, fmt.Sprintf("cuda:%d=600MiB@%d", i, 1+i%3))
	}
	for _, c := range []struct{ model, list string }{
		{storiesFile, "cpu/3"},
		{storiesFile, "cpu"},
		{storiesFile, "cuda:0=1TiB,cpu=2MiB"},
		{storiesFile, "cpu:0=4MiB,cpu:0=4MiB"},
		{large, "cuda:0=24GiB"},
		{large, "cuda:0=402MiB@1,rocm:0=404MiB@2,metal:0=400MiB@3,cpu=64MiB@1"},
		{large, strings.Join(many, ",")},
		{large, "cpu:0+1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17+18+19@1,cpu:20-30@1"},
		{hostile, "cpu/4"},
		{llama(t, gguftest.Llama{Blocks: 1, Vocab: 20000}), "cpu/2"},
	} {
		picture := estimated(t, c.model, c.list, "--max-seqs", "2", "--max-batch", "16", "--svg", "-")
		checkPicture(t, picture)
	}
}

func checkPicture(t *testing.T, picture string) {
	t.Helper()
	all := drawing(t, picture)
	require.Equal(t, "svg", all[0].name)
	width, height := all[0].number(t, "width"), all[0].number(t, "height")
	lines := map[float64][][2]float64{} // what texts take of each line
	for _, s := range all {
		switch s.name {
		case "rect":
			if s.attributes["class"] == paperInk.class {
				continue // the paper
			}
			assert.LessOrEqual(t, s.number(t, "x")+s.number(t, "width"), width+0.01)
			assert.LessOrEqual(t, s.number(t, "y")+s.number(t, "height"), height+0.01)
		case "text":
			f := font{size: s.number(t, "font-size"), bold: s.attributes["font-weight"] == "bold"}
			from, takes := s.number(t, "x"), f.width(s.text)
			switch s.attributes["text-anchor"] {
			case "middle":
				from -= takes / 2
			case "end":
				from -= takes
			}
			y := s.number(t, "y")
			assert.GreaterOrEqual(t, from, 0.0, s.text)
			assert.LessOrEqual(t, from+takes, width, s.text)
			assert.Less(t, y, height, s.text)
			for _, other := range lines[y] {
				assert.True(t, from+takes < other[0] || other[1] < from, "%q touches another text", s.text)
			}
			lines[y] = append(lines[y], [2]float64{from, from + takes})
		}
	}
}

// A bar's parts add up to the stage's bytes, in forward order, each stage to one
// scale.
func TestPlanPictureIsToScale(t *testing.T) {
	all := drawing(t, estimated(t, storiesFile, "cpu:0=8MiB@2,cpu:1=8MiB@1", "--max-seqs", "4", "--svg", "-"))
	doc := parsed[planned](t, estimated(t, storiesFile, "cpu:0=8MiB@2,cpu:1=8MiB@1", "--max-seqs", "4", "--json"))
	widths := map[string]float64{} // by line
	ends := map[string]float64{}
	var hints []string
	for i, s := range all {
		if s.name != "rect" || s.attributes["height"] != number(barHeight) {
			continue
		}
		y := s.attributes["y"]
		if widths[y] == 0 {
			ends[y] = margin + padding
		}
		assert.InDelta(t, ends[y], s.number(t, "x"), 0.02, "parts follow each other")
		widths[y] += s.number(t, "width")
		ends[y] = s.number(t, "x") + s.number(t, "width")
		hints = append(hints, all[i+1].text)
	}
	require.Len(t, widths, 2)
	var bars []float64
	for _, w := range widths {
		bars = append(bars, w)
	}
	bytes := []float64{float64(doc.Stages[0].Bytes), float64(doc.Stages[1].Bytes)}
	assert.InDelta(t, max(bytes[0], bytes[1])/min(bytes[0], bytes[1]), max(bars[0], bars[1])/min(bars[0], bars[1]), 0.01)
	assert.Regexp(t, `^embedding: weights, 128.0 KiB\nblock 0: weights, .*\nblock 0: kv cache, (.*\n)+other, (.*\n)+output head: weights, .*\nother, .*$`, strings.Join(hints, "\n"))
}

// An arrow stands where activations change the device, and nowhere else.
func TestPlanPictureOfCrossings(t *testing.T) {
	v := viewOf(1,
		stageOf("cpu:0", "", 0, 0, 100, 1),
		stageOf("cpu:0", "", 0, 0, 100, 2),
		stageOf("rocm:0", "", 0, 0, 100, 1),
		stageOf("cpu:0", "", 0, 0, 100, 1),
	)
	picture := v.svg()
	assert.NotContains(t, picture, "from cpu:0 to cpu:0")
	assert.Equal(t, 1, strings.Count(picture, "<title>activations go from cpu:0 to rocm:0</title>"))
	assert.Equal(t, 1, strings.Count(picture, "<title>activations go from rocm:0 to cpu:0</title>"))
	assert.Equal(t, 1, strings.Count(picture, ", the slowest stage<"))
	assert.NotContains(t, picture, "#c0392b", "which is nothing to be alarmed about")

	nothing := viewOf(0, pipeline.StagePlan{}) // not a byte, not a moment
	checkPicture(t, nothing.svg())
}

// Every part of every bar is named with its bytes, however small it is, and so is every
// device, those that have no stage with the reason.
func TestPlanPictureNamesEverything(t *testing.T) {
	picture := estimated(t, llama(t, gguftest.Llama{Blocks: 40}), "cuda:0=1GiB@1|cuda:1=2GiB@1,cpu:0=100GiB@1,cpu:1=1KiB@9,rocm:0=0", "--max-seqs", "1", "--svg", "-")
	checkPicture(t, picture)
	var texts []string
	for _, e := range drawing(t, picture) {
		if e.name == "text" {
			texts = append(texts, e.text)
		}
	}
	all := strings.Join(texts, "\n") + "\n"
	for part, times := range map[string]int{
		`embedding \S+ KiB\n`: 2, `blocks 0-\d+ \S+ [KM]iB\n`: 2, `blocks \d\d-39 \S+ [KM]iB\n`: 1, `output head \S+ KiB\n`: 1,
		`kv cache \S+ [KM]iB\n`: 3, `activations and workspace \S+ [KM]iB\n`: 3,
		`2 replicas that take batches in turn\n`: 1, `(?m)^cuda:1$`: 1,
		`cpu:1 has no stage: no layer fits: its budget is 1.0 KiB`: 1, `rocm:0 has no stage: its budget is 0.\n`: 1,
		`\d+% busy\n`: 3,
	} {
		assert.Len(t, regexp.MustCompile(part).FindAllString(all, -1), times, "%s in\n%s", part, all)
	}
	// In the dark every colour has another; to programs without style sheets the light
	// ones are attributes.
	assert.Contains(t, picture, "@media (prefers-color-scheme: dark)")
	for _, ink := range []shotInk{paperInk, panelInk, textInk, dimInk, cacheInk} {
		assert.Contains(t, picture, fmt.Sprintf(".%s { fill: %s }", ink.class, ink.dark))
		assert.Contains(t, picture, fmt.Sprintf(`class="%s" fill="%s"`, ink.class, ink.light))
	}
}

func TestFontFits(t *testing.T) {
	f := font{size: 10}
	for _, text := range []string{"", "x", "embedding, blocks 0-12", strings.Repeat("W", 100)} {
		for _, width := range []float64{10, 50, 100, 1000} {
			assert.LessOrEqual(t, f.width(f.fit(text, width)), max(width, f.width("W…")))
			for _, l := range f.wrap(text, width) {
				assert.LessOrEqual(t, f.width(l), max(width, f.width("W…")))
			}
		}
	}
	assert.Equal(t, []string{"embedding, blocks 0-12,", "output head"}, f.wrap("embedding, blocks 0-12, output head", 140))
	assert.Equal(t, "embedding…", f.fit("embedding, blocks", 66))
}

func TestPlanPictureFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "plan.svg")
	args := []string{"plan", "-m", storiesFile, "--devices", "cpu:0", "--svg"}
	table := done(t, append(args, path)...)
	assert.Contains(t, table, "crossings 0", "the table is printed too")
	picture, err := os.ReadFile(path)
	require.NoError(t, err)
	checkPicture(t, string(picture))
	doc := document[planned](t, append(args, path, "--json")...)
	assert.True(t, doc.Fits)
	assert.NotContains(t, done(t, append(args, "-")...), "total / budget", "the picture alone")

	failed(t, leat(t, append(args, filepath.Join(folder, "no", "plan.svg"))...), "can't be written")
	failed(t, leat(t, append(args, folder)...), "is a folder")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing half is left")
}

func TestEscape(t *testing.T) {
	assert.Equal(t, "a&lt;b&gt;&amp;&#34;\uFFFD", escape("a<b>&\"\x1b"))
	assert.Equal(t, "0.5", number(0.499999))
	assert.Equal(t, "10", number(10))
	assert.Equal(t, "-0.01", number(-0.014))
}
