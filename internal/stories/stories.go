// Package stories holds a small real model, so that the demo and the tests need
// no file and no network: a Llama of 260 thousand parameters that Andrej
// Karpathy trained on the TinyStories texts (Eldan and Li, 2023) and published
// under the MIT licence; see LICENSE beside it.
package stories

import _ "embed"

// Name stands for the model's path in errors.
const Name = "stories260K.gguf"

// GGUF is the model's file. It must not be changed.
//
//go:embed stories260K.gguf
var GGUF []byte
