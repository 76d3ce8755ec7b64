// Command gen writes the assembly of packages panel and ceiling:
//
//	go generate ./internal/panel ./internal/ceiling
//
// Each kernel's meaning is that of its portable twin, a Go function of the name
// without the level; those of activate… and gated… are by what follows.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	family := flag.String("kernels", "", "float, bf16, integer_vnni, …_avx512, …_avxvnni or …_avx2, quantize, attention, elementwise, activation, sampling or ceiling")
	flag.Parse()
	ConstraintExpr("amd64,!noasm")
	switch *family {
	case "float":
		for _, weights := range []string{"F32", "F16", "BF16"} {
			for _, rows := range []int{8, 4, 2, 1} {
				float(avx512, weights, rows)
			}
			for _, rows := range []int{4, 2, 1} {
				float(avx2, weights, rows)
			}
		}
	case "bf16":
		for _, rows := range []int{8, 4, 2, 1} {
			dotsBF16(rows)
		}
		toBF16()
	case "integer_vnni", "integer_avx512", "integer_avxvnni", "integer_avx2":
		products(integerLevels[*family])
	case "quantize":
		quantize()
	case "attention":
		fetch()
		for _, w := range []width{avx512, avx2} {
			soften(w)
			expandKeys(w)
			expandValues(w)
		}
		for _, values := range []string{"F32", "F16"} {
			for _, rows := range []int{8, 4, 2, 1} {
				score(avx512, values, rows)
				weigh(avx512, values, rows, 2)
			}
			for _, rows := range []int{4, 2, 1} {
				if rows < 4 {
					score(avx2, values, rows)
				}
				weigh(avx2, values, rows, 1)
			}
		}
	case "elementwise":
		rotatePairs()
		rotateHalves()
		for _, w := range []width{avx512, avx2} {
			scale(w)
			divide(w)
			multiply(w)
			subtract(w)
			standardize(w)
			add(w)
			toF16(w)
			sum(w)
			sumSquares(w)
			largest(w)
			find(w)
		}
	case "activation":
		for _, w := range []width{avx512, avx2} {
			activate(w)
			softCap(w)
		}
	case "sampling":
		for _, w := range []width{avx512, avx2} {
			count(w)
			filter(w)
			weights(w)
			sumWeights(w, false)
			sumWeights(w, true)
			sumExp(w)
		}
	case "ceiling":
		ceilings()
	default:
		log.Fatalf("-kernels %q: it may be float, bf16, integer_vnni, integer_avx512, integer_avxvnni, integer_avx2, quantize, attention, elementwise, activation, sampling or ceiling", *family)
	}
	Generate()
}
