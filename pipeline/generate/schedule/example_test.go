package schedule_test

import (
	"fmt"
	"time"

	"github.com/leat-dev/leat/kernels"
	"github.com/leat-dev/leat/pipeline/generate/schedule"
)

// Three batches by hand: a prompt, a token of it beside another prompt, and a token
// of each.
func Example() {
	s := schedule.New(schedule.Config{
		Routes: []schedule.Route{{
			Pages:    16,
			Stages:   []schedule.Stage{{Device: "cpu:0", Routes: 1}},
			InFlight: 1,
		}},
		MaxRows: 8, MaxOutputs: 8, MaxSeqs: 2, Grace: time.Second,
	})
	add := func(name string, tokens ...int32) {
		err := s.Add(&schedule.Sequence{Owner: name, Tokens: tokens, Most: 100, Want: schedule.Best})
		if err != nil {
			fmt.Println(err)
		}
	}
	now := time.Now()
	header, batch := kernels.NewHeader(8, 16), new(schedule.Batch)

	add("first", 11, 12, 13)
	for range 3 {
		route, ok, _ := s.Next(now, 0)
		if !ok {
			break
		}
		header.Reset()
		rows := s.Fill(route, header, batch)
		fmt.Printf("%d rows: tokens %v at %v\n", rows, header.Tokens, header.Positions)

		// The stages compute the rows here.
		now = now.Add(time.Millisecond)
		s.Returned(now, batch, []time.Duration{time.Millisecond})
		for _, part := range batch.Parts {
			if part.Outputs > 0 && !part.Dropped {
				fmt.Printf("  %v has its next token\n", part.Seq.Owner)
				s.Append(part.Seq, 99)
			}
		}
		if rows == 3 && s.Counts().Running == 1 {
			add("second", 21, 22)
		}
	}
	fmt.Printf("%+v\n", s.Counts())
	// Output:
	// 3 rows: tokens [11 12 13] at [0 1 2]
	//   first has its next token
	// 3 rows: tokens [99 21 22] at [3 0 1]
	//   first has its next token
	//   second has its next token
	// 2 rows: tokens [99 99] at [4 2]
	//   first has its next token
	//   second has its next token
	// {Up:1 Running:2 Waiting:0 FreePages:14 Pages:16 Preempted:0 Reused:0 Moved:0}
}
