package placement_test

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/pipeline/placement"
)

// schema compiles the embedded schema, which compiling also checks against the
// schema of schemas.
func schema(t testing.TB) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(placement.Schema)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("placement.schema.json", document))
	s, err := c.Compile("placement.schema.json")
	require.NoError(t, err)
	return s
}

// The schema and the parser agree, but for what a schema can't see.
func TestSchema(t *testing.T) {
	s := schema(t)
	for _, c := range readable {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(c.file))
		require.NoError(t, err, c.says)
		assert.NoError(t, s.Validate(document), c.says)
	}
	for _, c := range malformed {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(c.file))
		if c.schema {
			require.NoError(t, err, c.file)
			assert.Error(t, s.Validate(document), c.file)
		} else if err == nil {
			assert.NoError(t, s.Validate(document), "a schema sees this after all: %s", c.file)
		}
	}
}
