package panel_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vexDot is what _gen writes for a VPDPBUSD with a VEX prefix: its bytes, and in Go's
// order of operands what they should be.
var vexDot = regexp.MustCompile(`LONG +\$0x([0-9a-f]{8}); BYTE \$0x([0-9a-f]{2}) // VPDPBUSD Y(\d+), Y(\d+), Y(\d+)`)

// A disassembler that doesn't share the generator's mistakes reads every instruction
// that it encodes by itself.
func TestVEXBytesAreWhatTheySay(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("there is no objdump")
	}
	source, err := os.ReadFile("integer_avxvnni_amd64.s")
	require.NoError(t, err)
	var code, want bytes.Buffer
	for _, m := range vexDot.FindAllStringSubmatch(string(source), -1) {
		first, err := strconv.ParseUint(m[1], 16, 32)
		require.NoError(t, err)
		last, err := strconv.ParseUint(m[2], 16, 8)
		require.NoError(t, err)
		code.Write(binary.LittleEndian.AppendUint32(nil, uint32(first)))
		code.WriteByte(byte(last))
		fmt.Fprintf(&want, "{vex} vpdpbusd %%ymm%s,%%ymm%s,%%ymm%s\n", m[3], m[4], m[5])
	}
	require.Positive(t, code.Len())
	assert.Equal(t, bytes.Count(source, []byte("LONG ")), code.Len()/5, "all that is encoded by hand is read")
	file := filepath.Join(t.TempDir(), "code")
	require.NoError(t, os.WriteFile(file, code.Bytes(), 0o600))
	out, err := exec.CommandContext(t.Context(), objdump, "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	got := ""
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9a-f]+:\s*(.*?)\s*$`).FindAllStringSubmatch(string(out), -1) {
		got += strings.Join(strings.Fields(m[1]), " ") + "\n"
	}
	assert.True(t, want.String() == got, "the disassembler reads something else")
}

// Without AVX-512 there are 16 vector registers, and no masks. Go's assembler takes more
// of them for AVX-512.
func TestNoLevelUsesWhatItLacks(t *testing.T) {
	more := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b|_BCST|VPDPBUSD +[^Y]|VPTERNLOG`)
	for _, name := range []string{"integer_avx2_amd64.s", "integer_avxvnni_amd64.s"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Empty(t, more.FindString(string(source)), name)
	}
	source, err := os.ReadFile("integer_avx512_amd64.s")
	require.NoError(t, err)
	assert.NotContains(t, string(source), "VPDPBUSD")
}
