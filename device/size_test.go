package device

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                      0,
		"512":                    512,
		"12B":                    12,
		"600KiB":                 600 << 10,
		"512MiB":                 512 << 20,
		"20GiB":                  20 << 30,
		"20GB":                   20e9,
		"3kb":                    3000,
		"1.5GiB":                 3 << 29,
		"1.5 GiB":                3 << 29,
		".5KiB":                  512,
		"0.1GiB":                 107374182, // 107374182.4
		"2TiB":                   2 << 40,
		"1PB":                    1e15,
		"7EiB":                   7 << 60,
		"9223372036854775807":    math.MaxInt64,
		"9007199254740993":       1<<53 + 1, // no float64 is this number
		"8388608.0000000001TiB":  0,         // 2^63: over
		"9007199254740993B":      1<<53 + 1,
		"8388607.9999999999TiB":  math.MaxInt64 - 109, // 2^63 - 1e-10·2^40, rounded down
		"4398046511105.5MiB":     4398046511105<<20 + 1<<19,
		"0.000000000000000001EB": 1,
	} {
		n, err := ParseSize(text)
		if want == 0 && text != "0" {
			require.ErrorContains(t, err, "larger than the maximum", text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
}

func TestParseSizeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "there is no number",
		"GiB":                      "there is no number",
		"-1":                       "it is negative",
		"-1GiB":                    "it is negative",
		"+1":                       `"+1" is not a number`,
		"1e9":                      `"1e9" is not a number`,
		"1e":                       "the unit may be",
		"0x10":                     "not a number",
		"1.2.3GiB":                 "not a number",
		".":                        "not a number",
		"20G":                      "the unit may be",
		"20i":                      "the unit may be",
		"20BB":                     "the unit may be",
		"20QiB":                    "the unit may be",
		"NaN":                      "not a number",
		"1_000":                    "not a number",
		"9223372036854775808":      "larger than the maximum",
		"8EiB":                     "larger than the maximum",
		"99999999999999999999EiB":  "larger than the maximum",
		strings.Repeat("9", 1<<20): "not a number",
		"1,5GiB":                   "not a number",
	} {
		_, err := ParseSize(text)
		require.ErrorContains(t, err, want, "%.40q", text)
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0:                 "0 B",
		1023:              "1023 B",
		1024:              "1.0 KiB",
		1536:              "1.5 KiB",
		1<<20 - 1:         "1.0 MiB", // not 1024.0 KiB
		1<<20 - 100:       "1023.9 KiB",
		20 << 30:          "20.0 GiB",
		10522669875:       "9.8 GiB",
		5 << 40:           "5.0 TiB",
		math.MaxInt64:     "8.0 EiB",
		-1536:             "-1.5 KiB",
		math.MinInt64:     "-8.0 EiB",
		math.MinInt64 + 1: "-8.0 EiB",
	} {
		require.Equal(t, want, FormatSize(n))
	}
}

func TestBudget(t *testing.T) {
	const free = int64(math.MaxInt64)
	for text, want := range map[string]int64{
		"0":           0,
		"1.5KiB":      1536,
		"0%":          0,
		"50%":         free / 2,
		"100%":        free,
		"0.000001%":   free / 100_000_000,
		"99.9999999%": free / 100_000_000 * 99_999_999, // digits past the sixth don't count
	} {
		b, err := parseBudget(text)
		require.NoError(t, err, text)
		require.True(t, b.Given())
		n, err := b.Bytes(free)
		require.NoError(t, err)
		require.InDelta(t, want, n, 1e9, text)
	}
	for text, want := range map[string]string{
		"%": "no number", "101%": "0% to 100%", "-1%": "negative", "x%": "not a number", "x": "not a number",
		"99999999999999999999999999999999%": "0% to 100%",
	} {
		b, err := parseBudget(text)
		require.ErrorContains(t, err, want, text)
		require.False(t, b.Given())
	}

	var none Budget
	n, err := none.Bytes(1000)
	require.NoError(t, err)
	require.EqualValues(t, -1, n, "no budget is no limit")
	require.Equal(t, "none", none.String())

	half, err := parseBudget("50%")
	require.NoError(t, err)
	n, err = half.Bytes(1001)
	require.NoError(t, err)
	require.EqualValues(t, 500, n)
	_, err = half.Bytes(0)
	require.ErrorContains(t, err, "free memory isn't known")
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1.5GiB", "20GB", "0", "9223372036854775807", "1e9", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		again, err := ParseSize(FormatSize(n))
		if err != nil { // what rounds up to 8 EiB is over the largest
			require.Greater(t, n, int64(math.MaxInt64/10*9))
			return
		}
		require.InEpsilon(t, float64(n)+1, float64(again)+1, 0.06)
	})
}
