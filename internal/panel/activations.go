package panel

import (
	"fmt"
	"math"
)

// Activations are rows of activations in the form that the integer products
// multiply by: int8 in blocks of 32 columns, all levels alike. It is a handle on
// memory of the caller's. A block takes 48 bytes:
//
//	| q: 32 int8 | d: float32 | -8·Σq: int32 | the same of columns 0-15 | of columns 16-31 |
//
// An activation is d·q. The sums correct a product for weights that are held as codes
// with an offset: as they are, for Q4_0 weights held as q+8; 16 times them, for Q8_0
// weights held as q+128. The sum of the products with a block's minimum is -1/8 of them.
//
// Rows may be quantized and read at the same time, if they are different ones.
type Activations struct {
	mem  []byte
	cols int
}

const (
	activationBlock = 48 // bytes
	scaleAt         = 32
	biasAt          = 36
	firstBiasAt     = 40
	secondBiasAt    = 44
)

// ActivationBytes returns the bytes that rows rows of cols columns take.
func ActivationBytes(rows, cols int) (int64, error) {
	switch {
	case rows < 0 || cols < 1 || cols%Block != 0:
		return 0, fmt.Errorf("%d rows of %d columns of activations for integer weights: the columns must be a positive multiple of %d", rows, cols, Block)
	case int64(cols/Block) > math.MaxInt64/activationBlock,
		int64(rows) > math.MaxInt64/(int64(cols/Block)*activationBlock):
		return 0, fmt.Errorf("%d rows of %d columns of activations are more than memory can hold", rows, cols)
	}
	return int64(rows) * int64(cols/Block) * activationBlock, nil
}

// NewActivations lays rows rows of cols columns over mem, which must hold
// ActivationBytes of them. What mem holds is overwritten row by row by Quantize.
func NewActivations(mem []byte, rows, cols int) (Activations, error) {
	need, err := ActivationBytes(rows, cols)
	if err != nil {
		return Activations{}, err
	}
	if need > int64(len(mem)) {
		return Activations{}, fmt.Errorf("%d rows of %d columns of activations take %d bytes, but only %d are given", rows, cols, need, len(mem))
	}
	return Activations{mem: mem[:need], cols: cols}, nil
}

// Cols returns the number of columns of a row.
func (a *Activations) Cols() int { return a.cols }

// rows returns the bytes of n rows from row from on.
func (a *Activations) rows(from, n int) []byte {
	stride := a.stride()
	return a.mem[from*stride : (from+n)*stride]
}

func (a *Activations) stride() int { return a.cols / Block * activationBlock }
