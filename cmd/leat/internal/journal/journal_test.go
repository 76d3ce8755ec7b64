package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leat-dev/leat/cmd/leat/internal/journal"
)

var header = journal.Header{Version: journal.Version, Seed: 1<<64 - 1, Settings: map[string]string{"--temp": "0.8"}}

func load(t *testing.T, path string) *journal.State {
	t.Helper()
	s, err := journal.Load(path)
	require.NoError(t, err)
	return s
}

// Results come back byte for byte until they are in the output.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.resume")
	assert.Nil(t, load(t, path), "there is none")
	j, err := journal.Create(path, header, nil)
	require.NoError(t, err)
	third, fourth := `{"id":[1, "a" ,"<\u00e9"],"text":"é"}`+"\n", `{"id":null,"text":""}`+"\n"
	require.NoError(t, j.Keep(3, 33, []byte(third)))
	require.NoError(t, j.Keep(4, 44, []byte(fourth)))
	s := load(t, path)
	assert.Equal(t, header, s.Header)
	assert.Equal(t, map[int]journal.Result{3: {33, []byte(third)}, 4: {44, []byte(fourth)}}, s.Results)
	require.NoError(t, j.Written(3, 33))
	require.NoError(t, j.Keep(2, 22, []byte(third)), "it is in the output by now")
	s = load(t, path)
	assert.Equal(t, map[int]journal.Result{4: {44, []byte(fourth)}}, s.Results)
	assert.Equal(t, map[int]uint64{3: 33, 4: 44}, s.Digests)
	require.NoError(t, j.Close())

	j, err = journal.Create(path, header, s.Results)
	require.NoError(t, err)
	assert.Equal(t, s.Results, load(t, path).Results)
	require.NoError(t, j.Remove())
	assert.NoFileExists(t, path)
}

// However a killed process left the file, what comes before the damage is read.
func TestJournalThatIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.resume")
	j, err := journal.Create(path, header, nil)
	require.NoError(t, err)
	require.NoError(t, j.Keep(1, 11, []byte("{\"id\":1}\n")))
	require.NoError(t, j.Keep(2, 22, []byte("{\"id\":2}\n")))
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := range len(whole) {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		s := load(t, path)
		lines := strings.Count(string(whole[:n]), "\n")
		if lines == 0 {
			assert.Nil(t, s)
			continue
		}
		assert.Len(t, s.Results, lines-1)
	}
	require.NoError(t, os.WriteFile(path, append(whole, 0, 0, 0, '\n'), 0o600))
	assert.Len(t, load(t, path).Results, 2)

	require.NoError(t, os.WriteFile(path, []byte("something else\n"), 0o600))
	_, err = journal.Load(path)
	assert.ErrorContains(t, err, "isn't the journal")
}

// It doesn't grow with the batch, but with what is behind an unfinished line.
func TestJournalIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.resume")
	j, err := journal.Create(path, header, nil)
	require.NoError(t, err)
	line := []byte(`{"id":"` + strings.Repeat("x", 10_000) + "\"}\n")
	for n := 1; n < 2000; n++ {
		require.NoError(t, j.Keep(n+1, 1, line))
		require.NoError(t, j.Written(n, 1))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(1<<20+50_000), fmt.Sprint(n))
	}
	assert.Len(t, load(t, path).Results, 1)
	require.NoError(t, j.Remove())
}
