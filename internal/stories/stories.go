// Package stories contains a small trained model, so that the demo and the tests need no file and
// no network. It is a Llama of 260 thousand parameters that Andrej Karpathy trained on the
// TinyStories data set (Eldan and Li, 2023) and published under the MIT licence; see LICENSE in
// the same directory.
package stories

import _ "embed"

// Name is the model's name for use in errors in place of a path.
const Name = "stories260K.gguf"

// GGUF is the contents of the model's file. It must not be modified.
//
//go:embed stories260K.gguf
var GGUF []byte
