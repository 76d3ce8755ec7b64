package main

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/leat-dev/leat/internal/gpukernels/source"
)

// nvrtc is NVIDIA's run-time compiler, a library that needs neither a GPU nor a
// toolkit. (NVIDIA, "NVRTC" documentation, 12.4.)
type nvrtc struct {
	version     func(major, minor *int32) int32
	message     func(code int32) string
	create      func(program *uintptr, text, name *byte, headers int32, texts, names *unsafe.Pointer) int32
	destroy     func(program *uintptr) int32
	compile     func(program uintptr, options int32, texts *unsafe.Pointer) int32
	logSize     func(program uintptr, size *uint) int32
	log         func(program uintptr, text *byte) int32
	programSize func(program uintptr, size *uint) int32
	program     func(program uintptr, text *byte) int32
}

func openNVRTC(path string) (*nvrtc, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load NVRTC: %w", err)
	}
	n := &nvrtc{}
	for name, f := range map[string]any{
		"nvrtcVersion":           &n.version,
		"nvrtcGetErrorString":    &n.message,
		"nvrtcCreateProgram":     &n.create,
		"nvrtcDestroyProgram":    &n.destroy,
		"nvrtcCompileProgram":    &n.compile,
		"nvrtcGetProgramLogSize": &n.logSize,
		"nvrtcGetProgramLog":     &n.log,
		"nvrtcGetPTXSize":        &n.programSize,
		"nvrtcGetPTX":            &n.program,
	} {
		at, err := purego.Dlsym(lib, name)
		if err != nil {
			return nil, fmt.Errorf("%s has no %s: %w", path, name, err)
		}
		purego.RegisterFunc(f, at)
	}
	var major, minor int32
	if err := n.check("nvrtcVersion", n.version(&major, &minor)); err != nil {
		return nil, err
	}
	if v := fmt.Sprintf("%d.%d", major, minor); v != source.Compiler {
		return nil, fmt.Errorf("%s is NVRTC %s, the kernels are compiled with %s", path, v, source.Compiler)
	}
	return n, nil
}

func (n *nvrtc) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", call, n.message(code))
}

// kernels compiles the source in the tree, and puts its stamp before the PTX.
func (n *nvrtc) kernels() ([]byte, error) {
	headers, err := source.Headers()
	if err != nil {
		return nil, err
	}
	stamp, err := source.Stamp()
	if err != nil {
		return nil, err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	text := func(s string) unsafe.Pointer {
		p := unsafe.SliceData(append([]byte(s), 0))
		pin.Pin(p)
		return unsafe.Pointer(p)
	}
	var texts, names, options []unsafe.Pointer
	for name, t := range headers {
		texts, names = append(texts, text(string(t))), append(names, text(name))
	}
	for _, o := range source.Options {
		options = append(options, text(o))
	}

	var program uintptr
	if err := n.check("nvrtcCreateProgram", n.create(&program, (*byte)(text(source.Main)), (*byte)(text("kernels.cu")),
		int32(len(names)), unsafe.SliceData(texts), unsafe.SliceData(names))); err != nil {
		return nil, err
	}
	defer n.destroy(&program)
	failed := n.check("nvrtcCompileProgram", n.compile(program, int32(len(options)), unsafe.SliceData(options)))
	said, err := read(program, n.logSize, n.log)
	if err != nil {
		return nil, err
	}
	if said = bytes.TrimSpace(said); failed != nil || len(said) > 0 { // a warning is an error
		return nil, errors.Join(failed, errors.New(string(said)))
	}
	ptx, err := read(program, n.programSize, n.program)
	if err != nil {
		return nil, err
	}
	return append([]byte(stamp+"\n"), ptx...), nil
}

// read asks a program for a text: its size, which counts the 0 at the end, then itself.
func read(program uintptr, size func(uintptr, *uint) int32, text func(uintptr, *byte) int32) ([]byte, error) {
	var bytes uint
	if code := size(program, &bytes); code != 0 || bytes == 0 {
		return nil, fmt.Errorf("NVRTC has no text of its program: error %d", code)
	}
	t := make([]byte, bytes)
	if code := text(program, unsafe.SliceData(t)); code != 0 {
		return nil, fmt.Errorf("NVRTC doesn't give a text of its program: error %d", code)
	}
	return t[:bytes-1], nil
}
