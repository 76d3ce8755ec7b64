package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
)

// vec is one of the 32 vector registers.
type vec int

// String returns the register's name in Go's assembler.
func (v vec) String() string { return fmt.Sprintf("F%d", int(v)) }

// assembler collects a file of functions and the declarations of them.
type assembler struct {
	code, stubs, data bytes.Buffer

	function string
	used     [32]bool // the vector registers in use
	params   map[string]int
	imports  []string // of the declarations
	tables   map[string]bool
	written  int // instructions, of the function
	inside   int // of those, since the last mark
}

// begin starts a function. Its parameters are of Go's calling convention on the stack;
// frame is how many bytes of stack it uses itself.
func (a *assembler) begin(name, twin, signature string, frame int) {
	a.function, a.used, a.written = name, [32]bool{}, 0
	size := a.layOut(signature)
	fmt.Fprintf(&a.code, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $%d-%d\n", name, signature, name, frame, size)
	fmt.Fprintf(&a.stubs, "\n// %s is %s.\n//\n//go:noescape\nfunc %s%s\n", name, twin, name, signature)
}

// layOut finds the offsets of a signature's parameters and results.
func (a *assembler) layOut(signature string) int {
	a.params = map[string]int{}
	arguments, results, _ := strings.Cut(strings.TrimPrefix(signature, "("), ")")
	at := 0
	add := func(list, unnamed string) {
		if list == "" {
			return
		}
		fields := strings.Split(list, ",")
		typ := ""
		sizes := make([]string, len(fields))
		for i := len(fields) - 1; i >= 0; i-- {
			if name, t, ok := strings.Cut(strings.TrimSpace(fields[i]), " "); ok {
				fields[i], typ = name, t
			} else if unnamed != "" {
				fields[i], typ = unnamed, strings.TrimSpace(fields[i])
			} else {
				fields[i] = strings.TrimSpace(fields[i])
			}
			sizes[i] = typ
		}
		for i, name := range fields {
			switch typ := sizes[i]; {
			case strings.HasPrefix(typ, "[]"):
				at = (at + 7) &^ 7
				a.params[name+"_base"], a.params[name+"_len"] = at, at+8
				at += 24
			case typ == "float32":
				a.params[name] = at
				at += 4
			default: // int, uint64, float64
				at = (at + 7) &^ 7
				a.params[name] = at
				at += 8
			}
		}
	}
	add(arguments, "")
	results = strings.TrimSpace(results)
	if results == "" {
		return at
	}
	at = (at + 7) &^ 7
	if strings.HasPrefix(results, "(") {
		add(strings.Trim(results, "()"), "")
	} else {
		add(results, "ret")
	}
	return at
}

// param returns the operand of a parameter, or of a slice's _base or _len.
func (a *assembler) param(name string) string {
	at, ok := a.params[name]
	if !ok {
		panic(fmt.Sprintf("%s has no parameter %s", a.function, name))
	}
	return fmt.Sprintf("%s+%d(FP)", name, at)
}

// line writes an instruction that Go's assembler has, as it wants it.
func (a *assembler) line(format string, arguments ...any) {
	a.written++
	a.inside++
	fmt.Fprintf(&a.code, "\t%s\n", fmt.Sprintf(format, arguments...))
}

func (a *assembler) label(name string) { fmt.Fprintf(&a.code, "%s:\n", name) }

func (a *assembler) comment(format string, arguments ...any) {
	fmt.Fprintf(&a.code, "\n\t// %s\n", fmt.Sprintf(format, arguments...))
}

// end returns from the function, which frees all registers.
func (a *assembler) end() {
	a.line("RET")
}

// vec returns a register that nothing else uses until it is given back by free.
func (a *assembler) vec() vec {
	for i := range a.used {
		if !a.used[i] {
			a.used[i] = true
			return vec(i)
		}
	}
	panic(a.function + ": no register is left")
}

func (a *assembler) vecs(n int) []vec {
	v := make([]vec, n)
	for i := range v {
		v[i] = a.vec()
	}
	return v
}

func (a *assembler) free(registers ...vec) {
	for _, v := range registers {
		if !a.used[v] {
			panic(fmt.Sprintf("%s: v%d was given back twice", a.function, int(v)))
		}
		a.used[v] = false
	}
}

// op writes a vector instruction as its word. form is the instruction in ARM's
// syntax, with % for each register's number and # for an immediate number, as
// package main's table has it.
func (a *assembler) op(form string, operands ...any) {
	word, text := encode(form, operands...)
	a.line("WORD $0x%08x // %s", word, text)
}

// load and store move bytes bytes of memory at a scalar register and an offset.
func (a *assembler) load(bytes, at int, base string, to vec) {
	a.line("%s %d(%s), %v", moves[bytes], at, base, to)
}

func (a *assembler) store(bytes int, from vec, at int, base string) {
	a.line("%s %v, %d(%s)", moves[bytes], from, at, base)
}

var moves = map[int]string{4: "FMOVS", 8: "FMOVD", 16: "FMOVQ"}

// table defines 16 bytes of read-only data, once, and loads them.
func (a *assembler) table(name string, content [16]byte, to vec) {
	if a.tables == nil {
		a.tables = map[string]bool{}
	}
	if !a.tables[name] {
		a.tables[name] = true
		for i := 0; i < 16; i += 8 {
			fmt.Fprintf(&a.data, "DATA ·%s<>+%d(SB)/8, $0x", name, i)
			for j := 7; j >= 0; j-- {
				fmt.Fprintf(&a.data, "%02x", content[i+j])
			}
			a.data.WriteByte('\n')
		}
		fmt.Fprintf(&a.data, "GLOBL ·%s<>(SB), RODATA|NOPTR, $16\n\n", name)
	}
	a.line("MOVD $·%s<>(SB), R16", name)
	a.load(16, 0, "R16", to)
}

// splat fills the lanes of a register with 32 bits. R16 is used up.
func (a *assembler) splat(bits uint32, to vec) {
	a.line("MOVW $0x%x, R16", bits)
	a.op("dup %.4s, w%", to, 16)
}

// zero clears a register.
func (a *assembler) zero(v vec) { a.op("movi %.16b, #", v, 0) }

const notice = "// Code generated by go run ./genarm64 %s. DO NOT EDIT.\n\n//go:build arm64 && !noasm\n\n"

// files returns the assembly and the declarations.
func (a *assembler) files(family string) (assembly, declarations []byte) {
	var s, d bytes.Buffer
	fmt.Fprintf(&s, notice+"#include \"textflag.h\"\n\n", family)
	s.Write(a.data.Bytes())
	s.Write(bytes.TrimPrefix(a.code.Bytes(), []byte("\n")))
	fmt.Fprintf(&d, notice+"package panel\n", family)
	for _, path := range a.imports {
		fmt.Fprintf(&d, "\nimport %q\n", path)
	}
	d.Write(a.stubs.Bytes())
	formatted, err := format.Source(d.Bytes())
	if err != nil {
		panic(err)
	}
	return s.Bytes(), formatted
}
