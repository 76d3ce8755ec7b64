//go:build !amd64 || noasm

package panel

func supported() []*Kernels { return []*Kernels{portable} }
