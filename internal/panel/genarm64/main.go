// Command genarm64 writes the arm64 assembly of package panel, and the declarations of
// its functions:
//
//	go generate ./internal/panel
//
// A function's meaning is that of its portable twin. Registers are handed out while the
// code is written, so that a function that needs too many is an error here.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/leat-dev/leat/internal/blocks"
	"github.com/leat-dev/leat/kernels"
)

var families = map[string]func(a *assembler){
	"integer":     integerFamily,
	"float":       floatFamily,
	"quantize":    quantize,
	"attention":   attentionFamily,
	"elementwise": elementwiseFamily,
	"sampling":    samplingFamily,
	"activation":  activationFamily,
}

// counts has the instructions that a function takes for a multiplication and an addition.
var counts = map[string]float64{}

func count(function string, instructions, products int) {
	counts[function] = float64(instructions) / float64(products)
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", ".", "where the files are written")
	show := flag.Bool("counts", false, "print the instructions for a multiply-add of each product")
	flag.Parse()
	names := slices.Sorted(maps.Keys(families))
	if flag.NArg() > 0 {
		names = flag.Args()
	}
	for _, name := range names {
		write := families[name]
		if write == nil {
			log.Fatalf("no family %q: there are %v", name, slices.Sorted(maps.Keys(families)))
		}
		a := &assembler{}
		write(a)
		assembly, declarations := a.files(name)
		for file, content := range map[string][]byte{name + "_arm64.s": assembly, name + "_arm64.go": declarations} {
			if err := os.WriteFile(filepath.Join(*dir, file), content, 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
	if *show {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Printf("%-20s %.3f\n", name, counts[name])
		}
	}
}

// integerFamily writes the products of the quantized types, and the tables of them.
// Types that differ only in how a file has them share their functions.
func integerFamily(a *assembler) {
	var tables bytes.Buffer
	for _, l := range []level{neon, dots, i8mm} {
		fmt.Fprintf(&tables, "\nvar ints%s = map[kernels.Type][]intKernel{\n", l.name)
		var written []kernels.Type
		for t := kernels.Q8_0; t <= kernels.Q2_0; t++ {
			like := t
			for _, w := range written {
				if sameForm(t, w) {
					like = w
				}
			}
			if like == t {
				written = append(written, t)
				for _, rows := range l.rows {
					integers(a, t, l, rows)
				}
			}
			fmt.Fprintf(&tables, "\tkernels.%v: {", t)
			for i, rows := range l.rows {
				if i > 0 {
					tables.WriteString(", ")
				}
				fmt.Fprintf(&tables, "{%d, int%vx%d%s}", rows, like, rows, l.name)
			}
			tables.WriteString("},\n")
		}
		tables.WriteString("}\n")
	}
	a.stubs.Write(tables.Bytes())
	a.imports = []string{"github.com/leat-dev/leat/kernels"}
}

func sameForm(s, t kernels.Type) bool {
	f, g := blocks.For(s), blocks.For(t)
	return f.Cols == g.Cols && f.Bits == g.Bits && f.Offset == g.Offset && slices.Equal(f.Levels, g.Levels) &&
		f.Header == g.Header && f.Shift == g.Shift && f.MinimumD == g.MinimumD && f.Scales == g.Scales
}
