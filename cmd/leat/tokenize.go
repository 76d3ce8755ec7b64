package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leat-dev/leat/model/gguf"
	"github.com/leat-dev/leat/model/tokenizer"
)

type tokenizeFlags struct {
	model string
	plain bool
	json  bool
}

func tokenizeCommand() *cobra.Command {
	var f tokenizeFlags
	c := &cobra.Command{
		Use:   "tokenize -m FILE [--] TEXT",
		Short: "Show a text's tokens",
		Long: `Prints the token ids of a text as a prompt would have them, with the token that
begins a text, separated by commas: the form that leat logits --tokens takes. TEXT
may be empty and of several lines; after -- it may begin with a dash. FILE may be a
vocabulary without weights.`,
		Example: `  leat tokenize -m model.gguf "Once upon a time"
  leat tokenize -m model.gguf --plain --json -- "-1 </s>"`,
		Args: arguments(1, "TEXT"),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	modelFlag(flags, &f.model)
	flags.BoolVar(&f.plain, "plain", false, "add no tokens that begin or end a text, and read no control tokens in it")
	jsonFlag(flags, &f.json)
	return c
}

func (f *tokenizeFlags) run(c *cobra.Command, text string) (err error) {
	file, err := openFile(c.Context(), f.model, gguf.Open)
	if err != nil {
		return err
	}
	defer closing(file, &err)
	t, err := tokenizer.New(file)
	if err != nil {
		return err
	}
	ids := t.Prompt(tokenizer.WithControl(text))
	if f.plain {
		ids = t.Encode(tokenizer.Plain(text))
	}
	if f.json {
		return printJSON(c.OutOrStdout(), piecesOf(t, ids))
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), commas(ids))
	return err
}

func commas(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}

// tokenizeDocument is what leat tokenize --json prints. Pieces are as the
// vocabulary spells them; bytes in them that aren't UTF-8 become U+FFFD.
type tokenizeDocument struct {
	Tokens []int32  `json:"tokens"`
	Pieces []string `json:"pieces"`
}

func piecesOf(t tokenizer.Tokenizer, ids []int32) tokenizeDocument {
	doc := tokenizeDocument{append([]int32{}, ids...), make([]string, len(ids))}
	for i, id := range ids {
		doc.Pieces[i] = t.Text(id)
	}
	return doc
}
