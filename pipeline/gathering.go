package pipeline

import (
	"fmt"
	"time"
)

// Gathering is what the options say about how rows are gathered into batches. A
// [Pipeline] gathers rows itself. A user of a [Line], such as package generate, gathers
// them in its own way and applies these settings.
type Gathering struct {
	MaxWait time.Duration // see WithMaxWait
	Backlog int           // see WithBacklog
}

// Gathering returns the settings for a caller that will form the batches of a [Line]
// itself and applies them. It returns an error if one of the options has an effect only
// in a Pipeline: WithInput, WithAhead or WithIsolation.
func (s *Site) Gathering() (Gathering, error) {
	s.gathering.Store(true)
	g := Gathering{MaxWait: s.config.maxWait, Backlog: s.config.backlog}
	for _, of := range [...]struct{ option, why string }{
		{"WithInput", "the first layer reads the header of a batch"},
		{"WithAhead", "it is for Pipeline.Map"},
		{"WithIsolation", "a batch that failed is not computed again"},
	} {
		if s.config.has(of.option) {
			return g, noEffect(of.option, of.why)
		}
	}
	return g, nil
}

// checkLine returns an error if one of the options has no effect on a line whose user
// forms the batches.
func (p *Plan) checkLine() error {
	for _, option := range [...]string{"WithAhead", "WithIsolation"} {
		if p.config.has(option) {
			return noEffect(option, "it is for a Pipeline")
		}
	}
	for _, option := range [...]string{"WithMaxWait", "WithBacklog"} {
		if p.config.has(option) && !p.site.gathering.Load() {
			return noEffect(option, "whoever forms the batches of a Line gets it from Site.Gathering")
		}
	}
	return nil
}

func noEffect(option, why string) error {
	return fmt.Errorf("pipeline.%s has no effect here: %s", option, why)
}
