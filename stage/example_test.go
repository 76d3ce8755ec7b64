package stage_test

import (
	"context"
	"fmt"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/internal/stagetest"
	"github.com/leat-dev/leat/stage"
)

// Two layers that double and add 1, as one stage on the CPU. Package pipeline
// does this for whole models.
func Example() {
	ctx := context.Background()
	places, _ := device.Resolve("cpu", 0)
	var set device.Set
	defer set.Close()
	d, _ := set.Open(places[0].Info.Name)
	layers := []stage.Layer{
		&stagetest.Layer{Called: "block 0", Width: 1, Factor: 2, Term: 1},
		&stagetest.Layer{Called: "block 1", Width: 1, Factor: 2, Term: 1},
	}
	config := stage.Config{MaxRows: 8, MaxOutputs: 8, InFlight: 1}
	s, err := stage.Load(ctx, stage.Position{Last: true}, d, layers, config, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	in, out := stage.NewLink(1), stage.NewLink(1)
	go s.Run(ctx, in, out) // ends when in is closed
	b := stage.NewBatch(0, config)
	b.Header.Append(10, 0, 0, true) // a row: token 10 at position 0
	b.Seal()
	_ = in.Send(ctx, b)
	in.Close()
	b, _ = out.Recv(ctx)
	fmt.Println(stage.Describe(layers), b.Wait(ctx), b.Values())
	_, err = out.Recv(ctx)
	fmt.Println(err)
	// Output:
	// blocks 0-1 <nil> [43]
	// closed
}
