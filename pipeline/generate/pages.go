package generate

// pages hands out the numbers of key/value pages. Every stage keeps its own
// layers' pages under these numbers.
type pages struct {
	free []int32
	all  int
}

func newPages(n int) *pages {
	p := &pages{all: n, free: make([]int32, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	return p
}

// take returns n pages, or nil if there aren't so many.
func (p *pages) take(n int) []int32 {
	if n > len(p.free) {
		return nil
	}
	taken := make([]int32, n)
	copy(taken, p.free[len(p.free)-n:])
	p.free = p.free[:len(p.free)-n]
	return taken
}

// give takes pages back.
func (p *pages) give(taken []int32) { p.free = append(p.free, taken...) }
