package main

// The integer sums of a block: by dot products of four bytes (sdot), by matrix products of
// pairs of rows (smmla), or by products of 16 bits where a chip has neither.

// sums returns each row's integer sums of the groups of four columns from from to to.
func (p *product) sums(w *codes, from, to int) []vec {
	switch p.level.name {
	case neon.name:
		return p.multiplied(w, from, to)
	case dots.name:
		return p.dotted(w, from, to)
	}
	return p.paired(w, from, to)
}

// start sets a sum to what the offset wants.
func (p *product) start(r, from int, sum vec) {
	if p.offset() == 0 {
		p.zero(sum)
		return
	}
	p.load(16, scaleAt, xReg(r), sum)
	p.op("dup %.4s, %.s[#]", sum, sum, p.biasElement(from))
	p.bias(sum)
}

// dotted sums with sdot.
func (p *product) dotted(w *codes, from, to int) []vec {
	sums := p.vecs(p.rows)
	for r, s := range sums {
		p.start(r, from, s)
	}
	var x []vec
	for i := from; i < to; i++ {
		if i%4 == 0 {
			x = p.activations(i, x)
		}
		v := w.next()
		for r, s := range sums {
			p.op("sdot %.4s, %.16b, %.4b[#]", s, v, x[r], i%4)
		}
		p.free(v)
	}
	p.done(x)
	return sums
}

// activations returns each row's 16 columns from group i on.
func (p *product) activations(i int, last []vec) []vec {
	x := last
	if p.resident() {
		x = nil
		for r := range p.rows {
			x = append(x, p.x[2*r+i/4])
		}
		return x
	}
	if x == nil {
		x = p.vecs(p.rows)
	}
	for r := range x {
		p.load(16, 4*i, xReg(r), x[r])
	}
	return x
}

func (p *product) done(x []vec) {
	if !p.resident() {
		p.free(x...)
	}
}

// multiplied sums with smull and smlal, two products a lane side by side in 16 bits, as
// many as these hold.
func (p *product) multiplied(w *codes, from, to int) []vec {
	most := 1 << p.form.Bits // of a code as it is multiplied
	if p.form.Levels != nil || p.form.Bits == 8 {
		most = p.form.Largest()
	}
	fits := min((1<<15-1)/(127*most), to-from)
	wide := make([][2]vec, p.rows) // the sums of 32 bits, if those of 16 don't do
	var narrow [][2]vec
	var x []vec
	for i := from; i < to; i++ {
		if i%4 == 0 {
			x = p.activations(i, x)
		}
		v, at := w.next(), (i-from)%fits
		if at == 0 {
			narrow = make([][2]vec, p.rows)
		}
		group := p.vec()
		for r := range p.rows {
			p.op("dup %.4s, %.s[#]", group, x[r], i%4)
			if at == 0 {
				narrow[r] = [2]vec(p.vecs(2))
				p.op("smull %.8h, %.8b, %.8b", narrow[r][0], v, group)
				p.op("smull2 %.8h, %.16b, %.16b", narrow[r][1], v, group)
			} else {
				p.op("smlal %.8h, %.8b, %.8b", narrow[r][0], v, group)
				p.op("smlal2 %.8h, %.16b, %.16b", narrow[r][1], v, group)
			}
		}
		p.free(v, group)
		if at < fits-1 && i < to-1 {
			continue
		}
		for r := range p.rows {
			for k, n := range narrow[r] {
				if i-at == from {
					p.op("saddlp %.4s, %.8h", n, n)
					wide[r][k] = n
				} else {
					p.op("sadalp %.4s, %.8h", wide[r][k], n)
					p.free(n)
				}
			}
		}
	}
	p.done(x)
	sums := make([]vec, p.rows)
	for r, s := range wide {
		p.op("addp %.4s, %.4s, %.4s", s[0], s[0], s[1])
		if p.offset() != 0 {
			p.start(r, from, s[1])
			p.op("add %.4s, %.4s, %.4s", s[0], s[0], s[1])
		}
		p.free(s[1])
		sums[r] = s[0]
	}
	return sums
}

// xPairs is how many registers a block of eight rows takes, two rows to each eight
// columns; behind them lie what the offset wants of two rows, for both halves.
const xPairs = 16

// pairRows writes a block's activations to the stack as smmla wants them: of two rows
// eight columns each.
func (p *product) pairRows() {
	p.comment("Pairs of rows.")
	for r := 0; r < p.rows; r += 2 {
		v := p.vecs(3)
		for half := range 2 {
			p.load(16, 16*half, xReg(r), v[0])
			p.load(16, 16*half, xReg(r+1), v[1])
			p.op("zip1 %.2d, %.2d, %.2d", v[2], v[0], v[1])
			p.store(16, v[2], p.pairAt(r, 2*half), pairsReg)
			p.op("zip2 %.2d, %.2d, %.2d", v[2], v[0], v[1])
			p.store(16, v[2], p.pairAt(r, 2*half+1), pairsReg)
		}
		if p.offset() != 0 {
			p.load(16, scaleAt, xReg(r), v[0])
			p.load(16, scaleAt, xReg(r+1), v[1])
			halves := []int{0}
			if p.form.Scales.Halves() {
				halves = []int{0, 1}
			}
			for _, half := range halves {
				// Of the four words of each row the second, or one of the last two.
				zip, double := "zip1 %.4s, %.4s, %.4s", "zip2 %.2d, %.2d, %.2d"
				if p.form.Scales.Halves() {
					zip = "zip2 %.4s, %.4s, %.4s"
					if half == 0 {
						double = "zip1 %.2d, %.2d, %.2d"
					}
				}
				p.op(zip, v[2], v[0], v[1])
				p.op(double, v[2], v[2], v[2])
				p.bias(v[2])
				p.store(16, v[2], 16*xPairs+16*(r+half), pairsReg)
			}
		}
		p.free(v...)
	}
}

// pairAt is where the stack has eight columns of the rows r and r+1.
func (p *product) pairAt(r, eight int) int { return 16 * (r/2*4 + eight) }

// paired sums with smmla: a register has two lanes' sums, of two rows each.
func (p *product) paired(w *codes, from, to int) []vec {
	sums := p.vecs(p.rows)
	for r := 0; r < p.rows; r += 2 {
		for k := range 2 {
			if p.offset() == 0 {
				p.zero(sums[r+k])
				continue
			}
			p.load(16, 16*xPairs+16*(r+p.biasElement(from)/3), pairsReg, sums[r+k])
		}
	}
	for i := from; i < to; i += 2 {
		first, second, lower := w.next(), w.next(), p.vec()
		p.op("zip1 %.4s, %.4s, %.4s", lower, first, second)
		p.op("zip2 %.4s, %.4s, %.4s", first, first, second)
		p.free(second)
		for r := 0; r < p.rows; r += 2 {
			x := p.vec()
			p.load(16, p.pairAt(r, i/2), pairsReg, x)
			p.op("smmla %.4s, %.16b, %.16b", sums[r], lower, x)
			p.op("smmla %.4s, %.16b, %.16b", sums[r+1], first, x)
			p.free(x)
		}
		p.free(first, lower)
	}
	t := p.vec()
	for r := 0; r < p.rows; r += 2 {
		p.op("uzp1 %.4s, %.4s, %.4s", t, sums[r], sums[r+1])
		p.op("uzp2 %.4s, %.4s, %.4s", sums[r+1], sums[r], sums[r+1])
		sums[r], t = t, sums[r]
	}
	p.free(t)
	return sums
}
