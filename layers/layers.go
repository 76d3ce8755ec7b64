// Package layers has the layers of networks that a program builds for itself: [Dense]
// is a fully connected layer, and [Func] is a layer that a Go function computes. Both
// implement [stage.Layer], so that a pipeline.Pipeline places and runs them on any
// devices, beside each other and beside layers of the program's own.
//
// For layers of the program's own, the package has what most of them need: [Cost] is
// what a layer with some weights takes on a device, [Matrix] makes a weight of
// float32s, and [View] returns the rows of a batch on a device whose memory the host
// can reach.
//
// The package owns no memory on a device but what a layer's Load returns, and knows
// nothing of pipelines, of files or of a kind of device: what a layer computes, it
// enqueues with the ops of package kernels.
package layers
