// Command gen writes the assembly of package panel:
//
//	go generate ./kernels/cpu/panel
//
// Each kernel's meaning is that of its portable twin in portable.go.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	family := flag.String("kernels", "", "float, integer or quantize")
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
	case "integer":
		for _, weights := range []integer{q8, q4} {
			for _, rows := range []int{8, 4, 2, 1} {
				dot(weights, rows)
			}
			for _, rows := range []int{4, 2, 1} {
				madd(avx512, weights, rows)
			}
			for _, rows := range []int{2, 1} {
				madd(avx2, weights, rows)
			}
		}
	case "quantize":
		quantize()
	default:
		log.Fatalf("-kernels %q: it may be float, integer or quantize", *family)
	}
	Generate()
}
