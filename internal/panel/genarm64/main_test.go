package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// generate returns the files of a family.
func generate(name string) map[string][]byte {
	a := &assembler{}
	families[name](a)
	assembly, declarations := a.files(name)
	return map[string][]byte{name + "_arm64.s": assembly, name + "_arm64.go": declarations}
}

// The assembly in the tree is what its generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for name := range families {
		for file, want := range generate(name) {
			got, err := os.ReadFile("../" + file)
			require.NoError(t, err)
			got = bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))
			assert.True(t, bytes.Equal(want, got), "%s isn't what genarm64 writes: run go generate ./internal/panel", file)
		}
	}
}

// Another assembler makes of the instruction behind a word that word.
func TestWordsAreTheirInstructions(t *testing.T) {
	assembler, err := exec.LookPath("llvm-mc")
	if err != nil {
		t.Skip("llvm-mc, of Debian's package llvm, is not installed")
	}
	line := regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)`)
	words := map[string]string{}
	var order []string
	for name := range families {
		for _, m := range line.FindAllStringSubmatch(string(generate(name)[name+"_arm64.s"]), -1) {
			if words[m[2]] == "" {
				order = append(order, m[2])
			}
			words[m[2]] = m[1]
		}
	}
	require.Greater(t, len(order), 1000)
	cmd := exec.CommandContext(t.Context(), assembler, "-arch=aarch64", "-mattr=+dotprod,+i8mm", "-show-encoding")
	cmd.Stdin = strings.NewReader(strings.Join(order, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	encodings := regexp.MustCompile(`encoding: \[0x(..),0x(..),0x(..),0x(..)\]`).FindAllSubmatch(out, -1)
	require.Len(t, encodings, len(order))
	for i, e := range encodings {
		require.Equal(t, string(e[4])+string(e[3])+string(e[2])+string(e[1]), words[order[i]], order[i])
	}
}

func TestEncodeRefuses(t *testing.T) {
	word, text := encode("sdot %.4s, %.16b, %.4b[#]", vec(1), vec(2), vec(3), 1)
	assert.EqualValues(t, 0x4fa3e041, word)
	assert.Equal(t, "sdot v1.4s, v2.16b, v3.4b[1]", text)
	assert.Panics(t, func() { encode("sdot") })
	assert.Panics(t, func() { encode("fadd %.4s, %.4s, %.4s", vec(1), vec(2), vec(3), vec(4)) })
}
