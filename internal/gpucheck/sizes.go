package main

import "time"

// sizes are the shapes that are measured, and how long.
type sizes struct {
	least   time.Duration // that a measurement takes
	repeats int           // of which the fastest counts

	copied         []int64 // bytes; multiples of 16 KiB
	blocks, rounds int     // of the kernels that measure rates

	width, hidden, vocab   int
	heads, kvHeads, dim    int
	few, many              int // rows of a batch
	context, conversations int // positions of a sequence; sequences that decode together
	story                  int // tokens of it

	// different is how many bytes are read before the same are read again: more than
	// a GPU's cache holds, as a model's weights are.
	different int64
}

// fullSizes are those of models of 7 to 8 billion parameters.
var fullSizes = sizes{
	least: 20 * time.Millisecond, repeats: 3,
	copied: []int64{256 << 20, 1 << 30}, blocks: 1 << 14, rounds: 64,
	width: 4096, hidden: 11008, vocab: 32000,
	heads: 32, kvHeads: 8, dim: 128,
	few: 16, many: 512,
	context: 4096, conversations: 16,
	story:     200,
	different: 256 << 20,
}

var quickSizes = sizes{
	least: 0, repeats: 1,
	copied: []int64{64 << 10, 128 << 10}, blocks: 2, rounds: 1,
	width: 256, hidden: 512, vocab: 300,
	heads: 4, kvHeads: 2, dim: 32,
	few: 5, many: 33,
	context: 96, conversations: 2,
	story:     40,
	different: 0,
}

// modelShape is the model that mkgguf makes, and what is done with it.
type modelShape struct {
	types                                   []string
	width, hidden, layers, heads, kv, vocab int

	compared        int // tokens whose logits are compared
	prefill, decode int // tokens of a prompt; that are added
	repeat          int // of a measurement
}

// fullModel has 1.1 billion parameters.
var fullModel = modelShape{
	types: []string{"Q8_0", "Q4_0", "F16"},
	width: 2048, hidden: 8192, layers: 16, heads: 32, kv: 8, vocab: 32000,
	compared: 24, prefill: 512, decode: 32, repeat: 3,
}

var quickModel = modelShape{
	types: []string{"Q8_0", "Q4_0", "F16"},
	width: 256, hidden: 512, layers: 2, heads: 4, kv: 2, vocab: 300,
	compared: 8, prefill: 8, decode: 2, repeat: 1,
}
