package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wellFormed reads a picture to its end, and returns its texts.
func wellFormed(t *testing.T, picture string) (texts string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return texts
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			texts += string(text) + "\n"
		}
	}
}

func TestDemoDrawsAPicture(t *testing.T) {
	leaks(t)
	path := filepath.Join(t.TempDir(), "demo.svg")
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"demo", "-n", "12", "--devices", "cpu:0,cpu:0", "--svg", path}, strings.NewReader(""), &out, &errs), errs.String())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	texts := wellFormed(t, string(data))
	for _, want := range []string{
		"one model in 2 stages, 8 stories written at once", "cpu:0", "output head", "busy ",
		"wrote the very same texts, token for token", "one by one, 2 stages on cpu:0 → cpu:0", "all at once, 1 stage on cpu:0", "tokens/s",
		"prefers-color-scheme: dark", "prefers-reduced-motion: reduce", "@keyframes batch",
	} {
		assert.Contains(t, texts, want)
	}
	assert.Equal(t, strings.Contains(out.String(), "Why the pipeline"), strings.Contains(texts, "Why the pipeline"))
	assert.NotContains(t, string(data), "NaN")
}

func TestDemoSVGThatCannotBeWritten(t *testing.T) {
	leaks(t)
	var errs bytes.Buffer
	path := filepath.Join(t.TempDir(), "no", "demo.svg")
	assert.Equal(t, exitFailed, run(t.Context(), []string{"demo", "-n", "2", "--devices", "cpu:0", "--svg", path}, strings.NewReader(""), io.Discard, &errs))
	assert.Contains(t, errs.String(), "demo.svg")
}

func TestPictureOfManyStages(t *testing.T) {
	doc := demoDocument{Why: "Why the pipeline is not ahead of 1 stage on cpu:0 & more: " + strings.Repeat("a long reason, ", 30)}
	var visits []visit
	for i := range 7 {
		doc.Stages = append(doc.Stages, stageDocument{Device: fmt.Sprintf("cpu:%d", i), Layers: "embedding, blocks 0-2, output head", Bytes: 3 << 30, Busy: 0.5})
		at := time.Duration(i) * time.Millisecond
		visits = append(visits, visit{7, i, 4, at, at + time.Millisecond})
	}
	doc.Comparison = []standingDocument{{AtOnce: 8, Speed: 3, Ratio: 1, where: "7 stages on <&>"}, {AtOnce: 1, Speed: 0.2, Ratio: 15, where: strings.Repeat("cpu:0 → ", 30)}}
	picture := newDemoPicture(doc, newExcerpt(visits, 7)).document()
	texts := wellFormed(t, picture)
	assert.Contains(t, texts, "7 stages on <&>")
	assert.Contains(t, texts, "cpu:6")
	assert.NotContains(t, picture, "NaN")
}
