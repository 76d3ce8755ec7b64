package main

import (
	"context"
	"fmt"
	"time"

	"github.com/leat-dev/leat/kernels"
)

// measureProducts measures a product with every type of weight, on three shapes of
// matrices, for one row, few and many.
func (c *check) measureProducts(ctx context.Context) error {
	s := c.sizes
	table := section{title: "Products", table: [][]string{{
		"weights", "outputs × inputs",
		"1 row, µs", "GB/s", "of ceiling",
		fmt.Sprintf("%d rows, µs", s.few), "GB/s", "of ceiling",
		fmt.Sprintf("%d rows, µs", s.many), "TOP/s", "of ceiling",
	}}}
	table.note = "The ceiling is the longer of the two times that the bytes and the multiply-adds take at the ceilings above: of floats for F32, F16 and BF16, of bytes for the others. " +
		"Weights are read from memory, not from the GPU's cache; quantizing the activations counts once for all matrices of a call."
	err := c.onGPU(func(g *gpu) error {
		var longest time.Duration
		for _, typ := range weightTypes {
			for _, shape := range [][2]int{{s.width, s.width}, {s.hidden, s.width}, {s.width, s.hidden}} {
				name := fmt.Sprintf("%v, %d × %d", typ, shape[0], shape[1])
				if !fits(ctx, longest) {
					c.report.skip("product of "+name, "no time was left")
					continue
				}
				began := time.Now()
				row, err := c.measureProduct(ctx, g, typ, shape[0], shape[1])
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				table.table = append(table.table, row)
				longest = max(longest, time.Since(began))
			}
			c.say("products: %v done", typ)
		}
		return nil
	})
	c.report.add(table)
	return err
}

// measureProduct returns a row of the table.
func (c *check) measureProduct(ctx context.Context, g *gpu, typ kernels.Type, outs, cols int) (row []string, err error) {
	m, err := matrix(typ, outs, cols)
	if err != nil {
		return nil, err
	}
	rate := c.most.fma
	if typ.Quantized() {
		rate = c.most.dp4a
	}
	err = g.apart(func() error {
		var weights []kernels.Weight
		for held := int64(0); len(weights) == 0 || held < min(c.sizes.different, g.q.Device().Info().Free/4); {
			w := g.pack(ctx, m)
			if g.err != nil {
				return g.err
			}
			weights = append(weights, w)
			held += w.Bytes()
		}
		row = []string{typ.String(), fmt.Sprintf("%d × %d", outs, cols)}
		for _, rows := range []int{1, c.sizes.few, c.sizes.many} {
			x, y := g.tensor(ctx, rows, cols), g.tensor(ctx, rows, outs)
			if g.err != nil {
				return g.err
			}
			products := make([]kernels.Product, len(weights))
			for i, w := range weights {
				products[i] = kernels.Product{W: w, Dst: y}
			}
			took, err := g.time(ctx, func() { g.q.MatMul(x, products) })
			if err != nil {
				return err
			}
			took = max(1, took/time.Duration(len(products)))
			work := work{
				bytes: float64(weights[0].Bytes() + x.Bytes() + y.Bytes()),
				macs:  float64(rows) * float64(outs) * float64(cols), rate: rate,
			}
			speed := giga(work.bytes / took.Seconds())
			if rows == c.sizes.many {
				speed = tera(2 * work.macs / took.Seconds())
			}
			row = append(row, micros(took), speed, c.ofCeiling(work, took))
		}
		return nil
	})
	return row, err
}
