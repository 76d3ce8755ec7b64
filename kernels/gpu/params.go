package gpu

// The parameters of the kernels, as source/params.h has them: addresses on the
// device first, then 32-bit words, with the same names in the same order.

type embedParams struct {
	dst, table, header, status uint64
	rows, cols                 int32
	tokens                     int32
	chunks, lanes              int32
	typ                        int32
}

type normParams struct {
	dst, x, gain, bias uint64
	rows, cols         int32
	eps                float32
	biased             int32
}

type quantizeParams struct {
	q, d, sum, x uint64
	rows, cols   int32
}

type floatProductParams struct {
	y, x, w          uint64
	rows, cols, outs int32
	chunks, lanes    int32
	_                int32
}

type intProductParams struct {
	y, q, d, sum, w  uint64
	rows, cols, outs int32
	chunks           int32
}

type ropeParams struct {
	x, frequencies, header, status uint64
	rows, cols, dim                int32
	pairs, split                   int32
	_                              int32
}

type storeKVParams struct {
	cache, k, v, header, status uint64
	rows, heads, dim            int32
	pages, base                 int32
	outputs, words              int32
	_                           int32
}

type attentionParams struct {
	dst, q, cache, header, status uint64
	sinks, slopes                 uint64
	scale, cap                    float32
	rows                          int32
	heads, group, dim             int32
	pages, base                   int32
	outputs, words                int32
	window                        int32
	sunk, sloped                  int32
	_                             int32
}

type activateParams struct {
	dst, x      uint64
	n, function int32
}

type gatedParams struct {
	dst, gate, up uint64
	n, function   int32
}

type numberParams struct {
	x      uint64
	n      int32
	number float32
}

type addBiasParams struct {
	x, bias uint64
	n, cols int32
}

type addParams struct {
	dst, x uint64
	n, _   int32
}

type gatherParams struct {
	dst, src, header, status uint64
	rows, cols, outputs, _   int32
}

type argMaxParams struct {
	dst, x     uint64
	rows, cols int32
}

type topKParams struct {
	ids, values, x, columns uint64
	rows, cols, k           int32
	parts, each, given      int32
}

// wrong is what a kernel found wrong with a batch: word 0 of its status.
type wrong uint32

const (
	tokenOutside wrong = iota + 1
	positionNegative
	tableShort
	pageOutside
	outputOutside
	headerDiffers
)

// op is the kernel that found it: word 1.
type op uint32

const (
	opEmbed op = iota + 1
	opRoPE
	opStoreKV
	opAttention
	opGather
)
