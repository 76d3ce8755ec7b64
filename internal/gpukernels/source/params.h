// The parameters of every kernel, and how weights, activations and caches lie in
// a GPU's memory. Package gpu has the same structs in Go; a test compares the two.
//
// A kernel takes one struct by value: pointers first, then 32-bit words, filled up
// to a multiple of 8 bytes.
//
// Weights lie in panels of 32 rows, one row a lane of a warp. A row is cut into
// segments of 256 columns, a segment into chunks of 16 bytes, and the 32 lanes'
// chunks follow each other, so that a warp reads 512 bytes at once:
//
//	panel p, chunk c of the row, lane l:  ((p·chunks + c)·lanes + l)·16
//
// Chunks of a whole segment, in order:
//
//	F32         64 of 4 numbers
//	F16, BF16   32 of 8 numbers
//	Q8_0        1 of the 8 blocks' scales (F16), 16 of 16 int8
//	Q4_0        1 of the 8 blocks' scales (F16), 8 of one block each, as in a file
//	Q4_K        1 of d, dmin (F16) and the 12 bytes of 6-bit scales and minima, as in
//	            a file, 8 of the file's 128 bytes of nibbles
//	Q6_K        8 of the file's 128 bytes of low nibbles, 4 of its 64 bytes of high
//	            pairs of bits, 1 of its 16 int8 scales, 1 of d (F16) and 14 bytes of 0
//
// The last segment of a row may be shorter: as many chunks as its numbers fill, the
// last one padded with zeros; of Q8_0 and Q4_0 the chunk of scales, then those of the
// blocks that are there. Lanes behind the matrix's last row are zeros.
//
// A vector (a matrix of one row of F32, F16 or BF16: a norm's gain, frequencies) is
// F32 in one panel of a single lane: plain numbers, filled up with zeros to 16 bytes.
//
// Quantized activations are three arrays: int8 q [rows, cols]; float d [rows,
// cols/32]; int sum [rows, cols/32], the sum of a block's q.
//
// A page of a cache holds the keys, then the values of 32 positions, for one
// key/value head after another. dim is the head's elements.
//
//	F32, F16   keys: chunk of 16 bytes by chunk, of each the 32 positions': [chunks][32]
//	           values: position by position, padded to whole chunks: [32][chunks]
//	Q8_0       keys: scales [dim/32][32] (F16), then int8 chunks [dim/16][32]
//	           values: scales [32][dim/32] (F16), then int8 [32][dim]
//
// A header of a batch is what package kernels says: 8 words, then tokens [n],
// positions [n], tables [n], outputs [m], pages [p].

// Status is where a kernel says what is wrong with a batch: 8 words, zeros where
// nothing is. The first to find something writes its Wrong to word 0, then its Op to
// word 1 and three details to words 2 to 4.
enum Wrong {
  TOKEN_OUTSIDE = 1,     // row, token, tokens that there are
  POSITION_NEGATIVE = 2, // row, position, 0
  TABLE_SHORT = 3,       // row, word of the page tables needed, words that there are
  PAGE_OUTSIDE = 4,      // row, page without base, pages that there are from base on
  OUTPUT_OUTSIDE = 5,    // output, row, rows that there are
  HEADER_DIFFERS = 6,    // rows, outputs, words of page tables that the header holds
};

enum Op { EMBED = 1, ROPE = 2, STORE_KV = 3, ATTENTION = 4, GATHER = 5 };

// Type is a weight's, as package kernels numbers it.
enum Type {
  TYPE_F32 = 1,
  TYPE_F16 = 2,
  TYPE_BF16 = 3,
  TYPE_Q8_0 = 4,
  TYPE_Q4_0 = 5,
  TYPE_Q4_K = 11,
  TYPE_Q6_K = 13,
};

struct EmbedParams {
  OUT(float) dst;      // [rows, cols]
  IN(Chunk) table;     // a weight of any type
  IN(int) header;
  STATUS status;
  int rows, cols;
  int tokens;          // rows of the table
  int chunks;          // of a row of the table
  int lanes;           // 32, or 1 of a vector
  int type;            // a Type
};

struct NormParams {
  OUT(float) dst;      // [rows, cols]; may be x
  OUT(float) x;        // [rows, cols]
  IN(float) gain;      // [cols]
  IN(float) bias;      // [cols], if there is one
  int rows, cols;
  float eps;
  int biased;          // there is one
};

struct QuantizeParams {
  OUT(signed char) q;  // [rows, cols]
  OUT(float) d;        // [rows, cols/32]
  OUT(int) sum;        // [rows, cols/32]
  IN(float) x;         // [rows, cols]
  int rows, cols;
};

// A product of float weights: y [rows, outs] = x [rows, cols] · w [outs, cols]ᵀ.
struct FloatProductParams {
  OUT(float) y;
  IN(float) x;
  IN(Chunk) w;
  int rows, cols, outs;
  int chunks;          // of a row of w
  int lanes;           // 32, or 1 of a vector (type F32)
  int unused;
};

// A product of integer weights with quantized activations.
struct IntProductParams {
  OUT(float) y;
  IN(Chunk) q;         // [rows, cols]
  IN(float) d;         // [rows, cols/32]
  IN(int) sum;         // [rows, cols/32]
  IN(Chunk) w;
  int rows, cols, outs;
  int chunks;
};

struct RoPEParams {
  OUT(float) x;        // [rows, cols], in place
  IN(float) frequencies; // [pairs]
  IN(int) header;
  STATUS status;
  int rows, cols, dim; // dim: a head's elements; cols is a multiple
  int pairs;
  int split;           // pairs are (i, i+pairs) rather than (2i, 2i+1)
  int unused;
};

struct StoreKVParams {
  OUT(Chunk) cache;
  IN(float) k;         // [rows, heads·dim]
  IN(float) v;
  IN(int) header;
  STATUS status;
  int rows, heads, dim;
  int pages, base;     // pages of the cache; what is added to a page number
  int outputs, words;  // of the header: outputs, words of page tables
  int unused;
};

struct AttentionParams {
  OUT(float) dst;      // [rows, heads·dim]
  IN(float) q;
  IN(Chunk) cache;
  IN(int) header;
  STATUS status;
  IN(float) sinks;     // [heads], if there are any
  IN(float) slopes;    // [heads], if there are any
  float scale;
  float cap;           // 0: scores aren't bounded
  int rows;
  int heads, group;    // query heads; query heads to a key/value head
  int dim;
  int pages, base;
  int outputs, words;
  int window;          // positions; 0: all
  int sunk, sloped;    // there are sinks; there are slopes
  int unused;
};

// Function is an activation, as package kernels numbers it.
enum Function {
  FUNCTION_SILU = 1,
  FUNCTION_GELU = 2,
  FUNCTION_GELUERF = 3,
  FUNCTION_RELU = 4,
  FUNCTION_RELUSQUARED = 5,
  FUNCTION_TANH = 6,
  FUNCTION_SIGMOID = 7,
};

struct ActivateParams {
  OUT(float) dst;      // dst may be x
  OUT(float) x;
  int n, function;
};

struct GatedParams {
  OUT(float) dst;      // dst may be gate or up
  OUT(float) gate;
  OUT(float) up;
  int n, function;
};

// An op of each element and one number.
struct NumberParams {
  OUT(float) x;        // in place
  int n;
  float number;
};

struct AddBiasParams {
  OUT(float) x;        // [rows, cols], in place
  IN(float) bias;      // [cols]
  int n, cols;         // n = rows·cols
};

struct AddParams {
  OUT(float) dst;
  IN(float) x;
  int n, unused;
};

struct GatherParams {
  OUT(float) dst;      // [outputs, cols]
  IN(float) src;       // [rows, cols]
  IN(int) header;
  STATUS status;
  int rows, cols, outputs, unused;
};

struct ArgMaxParams {
  OUT(int) dst;        // [rows]
  IN(float) x;         // [rows, cols]
  int rows, cols;
};

// A row is cut into parts, each of which has k results.
struct TopKParams {
  OUT(int) ids;        // [rows, parts, k]
  OUT(float) values;   // [rows, parts, k]
  IN(float) x;         // [rows, cols]
  IN(int) columns;     // [rows, cols], if they are given: what x's numbers are the columns of; -1: none
  int rows, cols, k;
  int parts, each;     // parts of a row; columns of a part, a multiple of 256
  int given;           // columns are
};
