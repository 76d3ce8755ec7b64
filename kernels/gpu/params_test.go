package gpu

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	kernelsource "github.com/leat-dev/leat/internal/gpukernels/source"
	"github.com/leat-dev/leat/kernels"
)

var comments = regexp.MustCompile(`//[^\n]*`)

func source(t *testing.T) string {
	headers, err := kernelsource.Headers()
	require.NoError(t, err)
	return comments.ReplaceAllString(string(headers["params.h"]), "")
}

// field is a member of a struct in C.
type field struct {
	name string
	kind reflect.Kind
}

// structs reads the structs of params.h: pointers, ints and floats.
func structs(t *testing.T) map[string][]field {
	kinds := map[string]reflect.Kind{"int": reflect.Int32, "float": reflect.Float32, "STATUS": reflect.Uint64}
	member := regexp.MustCompile(`(?s)^\s*(\w+)(\([\w ]+\))?\s+(.*?)\s*$`)
	all := map[string][]field{}
	for _, s := range regexp.MustCompile(`(?s)struct (\w+) \{(.*?)\};`).FindAllStringSubmatch(source(t), -1) {
		for decl := range strings.SplitSeq(strings.TrimSpace(s[2]), ";") {
			if decl == "" {
				continue
			}
			m := member.FindStringSubmatch(decl)
			require.NotNil(t, m, "%s: %q", s[1], decl)
			kind, ok := kinds[m[1]]
			if m[1] == "IN" || m[1] == "OUT" {
				kind, ok = reflect.Uint64, true
			}
			require.True(t, ok, "%s: %q", s[1], decl)
			for name := range strings.SplitSeq(m[3], ",") {
				all[s[1]] = append(all[s[1]], field{strings.TrimSpace(name), kind})
			}
		}
	}
	return all
}

func TestParamsAreThoseOfTheKernels(t *testing.T) {
	ours := map[string]any{
		"EmbedParams": embedParams{}, "NormParams": normParams{}, "QuantizeParams": quantizeParams{},
		"FloatProductParams": floatProductParams{}, "IntProductParams": intProductParams{}, "RoPEParams": ropeParams{},
		"StoreKVParams": storeKVParams{}, "AttentionParams": attentionParams{}, "ActivateParams": activateParams{}, "GatedParams": gatedParams{},
		"NumberParams": numberParams{}, "AddBiasParams": addBiasParams{}, "TopKParams": topKParams{}, "AddParams": addParams{}, "GatherParams": gatherParams{}, "ArgMaxParams": argMaxParams{},
	}
	theirs := structs(t)
	require.Len(t, theirs, len(ours))
	for name, fields := range theirs {
		require.Contains(t, ours, name)
		typ := reflect.TypeOf(ours[name])
		require.Equal(t, len(fields), typ.NumField(), name)
		at := uintptr(0)
		for i, f := range fields {
			g := typ.Field(i)
			want := f.name
			switch want {
			case "type": // a word of Go's
				want = "typ"
			case "unused":
				want = "_"
			}
			require.Equal(t, want, g.Name, name)
			require.Equal(t, f.kind, g.Type.Kind(), "%s.%s", name, f.name)
			// Pointers come first, so that a C compiler puts nothing in between.
			require.Zero(t, at%g.Type.Size(), "%s.%s", name, f.name)
			require.Equal(t, at, g.Offset, "%s.%s", name, f.name)
			at += g.Type.Size()
		}
		require.Equal(t, at, typ.Size(), name)
		require.Zero(t, at%8, name)
	}
}

// enum reads the numbers of an enum of params.h.
func enum(t *testing.T, name string) map[string]uint32 {
	body := regexp.MustCompile(`(?s)enum ` + name + ` \{(.*?)\};`).FindStringSubmatch(source(t))
	require.NotNil(t, body, name)
	values := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(\w+) = (\d+)`).FindAllStringSubmatch(body[1], -1) {
		v, err := strconv.ParseUint(m[2], 10, 32)
		require.NoError(t, err)
		values[m[1]] = uint32(v)
	}
	return values
}

func TestStatusIsThatOfTheKernels(t *testing.T) {
	require.Equal(t, map[string]uint32{
		"TOKEN_OUTSIDE": uint32(tokenOutside), "POSITION_NEGATIVE": uint32(positionNegative), "TABLE_SHORT": uint32(tableShort),
		"PAGE_OUTSIDE": uint32(pageOutside), "OUTPUT_OUTSIDE": uint32(outputOutside), "HEADER_DIFFERS": uint32(headerDiffers),
	}, enum(t, "Wrong"))
	require.Equal(t, map[string]uint32{
		"EMBED": uint32(opEmbed), "ROPE": uint32(opRoPE), "STORE_KV": uint32(opStoreKV), "ATTENTION": uint32(opAttention), "GATHER": uint32(opGather),
	}, enum(t, "Op"))
	require.EqualError(t, explain([8]uint32{1, 1, 7, 100, 90}), "Embed: row 7 is token 100, the table has 90")
	require.EqualError(t, explain([8]uint32{2, 2, 7, 1<<32 - 2}), "RoPE: row 7 is at position -2")
	require.ErrorContains(t, explain([8]uint32{77, 9, 1, 2, 3}), "op 9: the kernel reports [77 9 1 2 3 0 0 0]")
}

func TestTypesAreNumberedAsTheKernelsExpect(t *testing.T) {
	want := map[string]uint32{}
	for _, typ := range weightTypes {
		want["TYPE_"+typ.String()] = uint32(typ)
	}
	require.Equal(t, want, enum(t, "Type"))
}

func TestActivationsAreNumberedAsTheKernelsExpect(t *testing.T) {
	want := map[string]uint32{}
	for _, f := range kernels.Activations() {
		want["FUNCTION_"+strings.ToUpper(f.String())] = uint32(f)
	}
	require.Equal(t, want, enum(t, "Function"))
}
