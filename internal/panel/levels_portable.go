//go:build (!amd64 && !arm64) || noasm

package panel

func supported() []*Kernels { return []*Kernels{portable} }
