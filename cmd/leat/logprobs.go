package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/pflag"

	"github.com/leat-dev/leat/model/tokenizer"
	"github.com/leat-dev/leat/pipeline/generate"
)

// logProbs says what is told of the probabilities of the tokens that are added. The
// zero value tells nothing.
type logProbs struct {
	wanted bool
	top    int // the most likely tokens, at each token
}

// mostLogProbs limits how many times longer than its text a result can be. It is the
// limit of OpenAI's API.
const mostLogProbs = 20

func (f *generationFlags) addLogProbs(flags *pflag.FlagSet) {
	defer group(flags, "Generation")()
	read(flags, "logprobs", "", fmt.Sprintf("also give the log-probability of each token, and the `N` most likely tokens with theirs, 0 to %d", mostLogProbs), &f.logProbs, parseLogProbs)
}

func parseLogProbs(text string) (logProbs, error) {
	n, err := whole(0, mostLogProbs)(text)
	return logProbs{wanted: err == nil, top: n}, err
}

// set reads what a line of a batch says.
func (l *logProbs) set(value json.RawMessage) error {
	if string(value) == "false" {
		*l = logProbs{}
		return nil
	}
	what := fmt.Sprintf("a whole number from 0 to %d, or false", mostLogProbs)
	n := -1
	if err := integer("logprobs", value, &n, what); err != nil {
		return err
	}
	if n < 0 || n > mostLogProbs {
		return fmt.Errorf("logprobs %d: it may be %s", n, what)
	}
	*l = logProbs{wanted: true, top: n}
	return nil
}

// String is the value of the flag.
func (l logProbs) String() string {
	if !l.wanted {
		return "not given"
	}
	return strconv.Itoa(l.top)
}

// scores are the log-probabilities of the tokens of a continuation.
type scores struct {
	tokenizer tokenizer.Tokenizer
	tokens    []score
}

// score is a token that was added.
type score struct {
	generate.TokenLogProb
	top []generate.TokenLogProb // the most likely first
}

func newScores(t tokenizer.Tokenizer) *scores { return &scores{tokenizer: t} }

// add adds a token. If s is nil, it does nothing.
func (s *scores) add(t generate.Token) {
	if s != nil {
		s.tokens = append(s.tokens, score{generate.TokenLogProb{ID: t.ID, LogProb: t.LogProb}, t.Top})
	}
}

// scoreBytes is how many bytes a token with its log-probability takes in the line of a
// result, about.
const scoreBytes = 64

// scoredBytes returns how many bytes the log-probabilities of so many tokens, with so
// many alternatives each, take at most, about.
func scoredBytes(tokens, top int) int64 { return int64(tokens) * int64(1+top) * scoreBytes }

// What the log-probabilities of the lines in a window may take, in bytes.
const (
	leastScored = 1 << 20  // so little that every plan leaves it free
	mostScored  = 64 << 20 // so much that hundreds of lines with many alternatives run at once
)

// scoredRoom returns how many bytes the log-probabilities of a window may take beside
// a plan: a part of the host's memory that the plan leaves free. The rest is for
// copies, and for what the garbage collector has not found yet.
func scoredRoom(p *generate.Plan) int64 {
	const part = 8
	left := map[string]int64{}
	for _, s := range p.Stages {
		for _, r := range s.Each() {
			if !r.Device.HostMemory || r.Room <= 0 {
				continue
			}
			if _, known := left[r.Memory]; !known {
				left[r.Memory] = r.Room
			}
			left[r.Memory] -= r.Bytes()
		}
	}
	room := int64(mostScored)
	for _, bytes := range left {
		room = min(room, bytes/part)
	}
	return max(room, leastScored)
}

// scoresDocument is scores in the form of OpenAI's chat completions, with the tokens'
// ids added.
type scoresDocument struct {
	Content []scoreDocument `json:"content"` // one for each token that was added
}

type scoreDocument struct {
	likelihoodDocument
	Top []likelihoodDocument `json:"top_logprobs"` // the most likely first
}

type likelihoodDocument struct {
	ID      int32   `json:"id"`
	Token   string  `json:"token"`
	Bytes   []int   `json:"bytes,omitempty"` // of a token that isn't valid UTF-8
	LogProb float64 `json:"logprob"`
}

// document returns nil if s is nil.
func (s *scores) document() *scoresDocument {
	if s == nil {
		return nil
	}
	doc := &scoresDocument{Content: make([]scoreDocument, len(s.tokens))}
	for i, t := range s.tokens {
		doc.Content[i] = scoreDocument{s.likelihood(t.TokenLogProb), make([]likelihoodDocument, len(t.top))}
		for j, other := range t.top {
			doc.Content[i].Top[j] = s.likelihood(other)
		}
	}
	return doc
}

// impossible stands for the logarithm of 0, which JSON can't express, as it does in
// OpenAI's API.
const impossible = -9999

func (s *scores) likelihood(t generate.TokenLogProb) likelihoodDocument {
	piece := s.tokenizer.AppendPiece(nil, t.ID)
	l := likelihoodDocument{ID: t.ID, Token: string(piece), LogProb: max(impossible, decimals(t.LogProb, 6)+0)} // -0 + 0 is 0
	if !utf8.Valid(piece) {
		l.Token = strings.ToValidUTF8(l.Token, "\uFFFD")
		for _, b := range piece {
			l.Bytes = append(l.Bytes, int(b))
		}
	}
	return l
}

// print writes the scores as a table, below an empty line. It is no wider than the
// terminal behind w.
func (s *scores) print(w io.Writer) error {
	_, err := io.WriteString(w, "\n"+strings.Join(s.table(windowWidth(w)), "\n")+"\n")
	return err
}

// narrowTop is the least width of the column of the most likely tokens.
const narrowTop = 24

// table returns the scores in lines of at most width columns; 0: any.
func (s *scores) table(width int) (lines []string) {
	tokens, logs := column{title: "token"}, column{title: "logprob", right: true}
	shares := column{title: "probability", right: true}
	for _, t := range s.tokens {
		tokens.cells = append(tokens.cells, s.quoted(t.ID))
		logs.cells = append(logs.cells, strconv.FormatFloat(max(impossible, t.LogProb), 'f', 3, 64))
		shares.cells = append(shares.cells, probability(t.LogProb))
	}
	rows := layOut([]column{tokens, logs, shares}, 0)
	left := 0
	for _, row := range rows {
		left = max(left, ansi.StringWidth(row))
	}
	indent := left + 2
	beside := width == 0 || width-indent >= narrowTop
	if !beside {
		indent = 2
	}
	for i, row := range rows {
		row = ansi.Strip(row)
		var top []string
		switch {
		case i > 0:
			top = s.most(s.tokens[i-1].top, max(0, width-indent))
		case len(s.tokens) > 0 && len(s.tokens[0].top) > 0:
			top = []string{"most likely"}
		}
		if beside && len(top) > 0 {
			row = pad(row, indent) + top[0]
			top = top[1:]
		}
		lines = append(lines, within(row, width)...)
		for _, line := range top {
			lines = append(lines, strings.Repeat(" ", min(indent, max(0, width-1)))+line)
		}
	}
	return lines
}

// most returns tokens with their probabilities in lines of at most width columns; 0:
// one line.
func (s *scores) most(top []generate.TokenLogProb, width int) (lines []string) {
	line := ""
	for _, t := range top {
		one := s.quoted(t.ID) + " " + probability(t.LogProb)
		switch {
		case line == "":
			line = one
		case width > 0 && ansi.StringWidth(line)+2+ansi.StringWidth(one) > width:
			lines, line = append(lines, line), one
		default:
			line += "  " + one
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// quoted is a token as Go spells a string, so that spaces can be seen.
func (s *scores) quoted(id int32) string {
	piece := s.tokenizer.AppendPiece(nil, id)
	const most = 40
	if len(piece) > most {
		return strconv.Quote(string(piece[:most])) + "…"
	}
	return strconv.Quote(string(piece))
}

func probability(logProb float64) string {
	return strconv.FormatFloat(100*math.Exp(logProb), 'f', 1, 64) + "%"
}
