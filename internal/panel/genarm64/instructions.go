package main

import (
	"fmt"
	"strings"
)

// Go's assembler has few of the vector instructions, so that all are written as their
// words, with the registers' numbers and immediates put in.
type instruction struct {
	word      uint32
	immediate immediate
}

// immediate says where an instruction has its immediate number.
type immediate int

const (
	none    immediate = iota
	element           // of four words, as the last operand of a product
	lane              // of four words
	laneOfTwo
	left // a shift
	right
	byteOf  // 8 bits
	extract // bytes
)

// encode returns an instruction's word, and its text in ARM's syntax. The registers
// are in the order rd, rn, rm.
func encode(form string, operands ...any) (uint32, string) {
	in, ok := instructions[form]
	if !ok {
		panic("no instruction " + form)
	}
	word, register := in.word, 0
	var text strings.Builder
	next := 0 // the register after the last one
	put := func(n int) {
		word |= uint32(n) << [...]int{0, 5, 16}[register]
		register++
		fmt.Fprint(&text, n)
	}
	for i := range len(form) {
		switch {
		case form[i] == '%':
			// A general register is given by its number.
			n, ok := operands[0].(int)
			if !ok {
				n = int(operands[0].(vec))
			}
			if !strings.ContainsRune("wxsd", rune(form[i-1])) {
				text.WriteByte('v')
			}
			put(n)
			next = n + 1
			operands = operands[1:]
		case form[i] == '#' && (i+1 == len(form) || form[i+1] == ']'):
			n := operands[0].(int)
			operands = operands[1:]
			if in.immediate != element && in.immediate != lane && in.immediate != laneOfTwo {
				text.WriteByte('#')
			}
			fmt.Fprint(&text, n)
			word = in.immediate.put(word, n)
		case form[i] == '+':
			fmt.Fprintf(&text, "v%d", next)
		default:
			text.WriteByte(form[i])
		}
	}
	if len(operands) > 0 {
		panic("too many operands of " + form)
	}
	return word, text.String()
}

// put returns the word with an immediate.
func (i immediate) put(word uint32, n int) uint32 {
	u := uint32(n)
	switch i {
	case element:
		return word | u&1<<21 | u>>1<<11
	case lane:
		return word | u<<19
	case laneOfTwo:
		return word | u<<20
	case left:
		return word + u<<16
	case right:
		return word - u<<16
	case byteOf:
		return word | u>>5<<16 | u&31<<5
	case extract:
		return word | u<<11
	}
	panic("an instruction without an immediate")
}

var instructions = map[string]instruction{
	"sdot %.4s, %.16b, %.4b[#]":        {0x4f80e000, element},
	"sdot %.4s, %.16b, %.16b":          {0x4e809400, none},
	"smmla %.4s, %.16b, %.16b":         {0x4e80a400, none},
	"fmla %.4s, %.4s, %.4s":            {0x4e20cc00, none},
	"fmla %.4s, %.4s, %.s[#]":          {0x4f801000, element},
	"fmls %.4s, %.4s, %.4s":            {0x4ea0cc00, none},
	"fmul %.4s, %.4s, %.4s":            {0x6e20dc00, none},
	"fmul %.4s, %.4s, %.s[#]":          {0x4f809000, element},
	"fadd %.4s, %.4s, %.4s":            {0x4e20d400, none},
	"fsub %.4s, %.4s, %.4s":            {0x4ea0d400, none},
	"fdiv %.4s, %.4s, %.4s":            {0x6e20fc00, none},
	"faddp %.4s, %.4s, %.4s":           {0x6e20d400, none},
	"fmax %.4s, %.4s, %.4s":            {0x4e20f400, none},
	"fmaxnm %.4s, %.4s, %.4s":          {0x4e20c400, none},
	"fcmgt %.4s, %.4s, %.4s":           {0x6ea0e400, none},
	"fcmge %.4s, %.4s, %.4s":           {0x6e20e400, none},
	"fcmeq %.4s, %.4s, %.4s":           {0x4e20e400, none},
	"fmla %.2d, %.2d, %.2d":            {0x4e60cc00, none},
	"fmul %.2d, %.2d, %.2d":            {0x6e60dc00, none},
	"fadd %.2d, %.2d, %.2d":            {0x4e60d400, none},
	"fsub %.2d, %.2d, %.2d":            {0x4ee0d400, none},
	"fcmge %.2d, %.2d, %.2d":           {0x6e60e400, none},
	"faddp %.2d, %.2d, %.2d":           {0x6e60d400, none},
	"faddp d%, %.2d":                   {0x7e70d800, none},
	"fcvtl %.2d, %.2s":                 {0x0e617800, none},
	"fcvtl2 %.2d, %.4s":                {0x4e617800, none},
	"fcvtl %.4s, %.4h":                 {0x0e217800, none},
	"fcvtl2 %.4s, %.8h":                {0x4e217800, none},
	"fcvtn %.4h, %.4s":                 {0x0e216800, none},
	"fcvtn2 %.8h, %.4s":                {0x4e216800, none},
	"scvtf %.4s, %.4s":                 {0x4e21d800, none},
	"scvtf s%, s%":                     {0x5e21d800, none},
	"fcvtns %.4s, %.4s":                {0x4e21a800, none},
	"fcvtzs %.4s, %.4s":                {0x4ea1b800, none},
	"fneg %.4s, %.4s":                  {0x6ea0f800, none},
	"fabs %.4s, %.4s":                  {0x4ea0f800, none},
	"fdiv s%, s%, s%":                  {0x1e201800, none},
	"fadd s%, s%, s%":                  {0x1e202800, none},
	"fsub s%, s%, s%":                  {0x1e203800, none},
	"fmul s%, s%, s%":                  {0x1e200800, none},
	"add %.4s, %.4s, %.4s":             {0x4ea08400, none},
	"add %.2d, %.2d, %.2d":             {0x4ee08400, none},
	"sub %.2d, %.2d, %.2d":             {0x6ee08400, none},
	"sub %.4s, %.4s, %.4s":             {0x6ea08400, none},
	"add %.16b, %.16b, %.16b":          {0x4e208400, none},
	"sub %.16b, %.16b, %.16b":          {0x6e208400, none},
	"addp %.4s, %.4s, %.4s":            {0x4ea0bc00, none},
	"addv s%, %.4s":                    {0x4eb1b800, none},
	"mul %.4s, %.4s, %.4s":             {0x4ea09c00, none},
	"mla %.4s, %.4s, %.4s":             {0x4ea09400, none},
	"mul %.4s, %.4s, %.s[#]":           {0x4f808000, element},
	"mla %.4s, %.4s, %.s[#]":           {0x6f800000, element},
	"smull %.8h, %.8b, %.8b":           {0x0e20c000, none},
	"smull2 %.8h, %.16b, %.16b":        {0x4e20c000, none},
	"smlal %.8h, %.8b, %.8b":           {0x0e208000, none},
	"smlal2 %.8h, %.16b, %.16b":        {0x4e208000, none},
	"saddlp %.4s, %.8h":                {0x4e602800, none},
	"sadalp %.4s, %.8h":                {0x4e606800, none},
	"and %.16b, %.16b, %.16b":          {0x4e201c00, none},
	"orr %.16b, %.16b, %.16b":          {0x4ea01c00, none},
	"eor %.16b, %.16b, %.16b":          {0x6e201c00, none},
	"bic %.16b, %.16b, %.16b":          {0x4e601c00, none},
	"bit %.16b, %.16b, %.16b":          {0x6ea01c00, none},
	"bif %.16b, %.16b, %.16b":          {0x6ee01c00, none},
	"bsl %.16b, %.16b, %.16b":          {0x6e601c00, none},
	"tbl %.16b, {%.16b}, %.16b":        {0x4e000000, none},
	"ushl %.4s, %.4s, %.4s":            {0x6ea04400, none},
	"cmgt %.4s, %.4s, %.4s":            {0x4ea03400, none},
	"cmhi %.4s, %.4s, %.4s":            {0x6ea03400, none},
	"cmhs %.4s, %.4s, %.4s":            {0x6ea03c00, none},
	"umax %.4s, %.4s, %.4s":            {0x6ea06400, none},
	"umaxv s%, %.4s":                   {0x6eb0a800, none},
	"fmaxv s%, %.4s":                   {0x6e30f800, none},
	"uxtl %.8h, %.8b":                  {0x2f08a400, none},
	"uxtl %.4s, %.4h":                  {0x2f10a400, none},
	"sxtl %.8h, %.8b":                  {0x0f08a400, none},
	"sxtl2 %.8h, %.16b":                {0x4f08a400, none},
	"sxtl %.4s, %.4h":                  {0x0f10a400, none},
	"sxtl2 %.4s, %.8h":                 {0x4f10a400, none},
	"sxtl %.2d, %.2s":                  {0x0f20a400, none},
	"sxtl2 %.2d, %.4s":                 {0x4f20a400, none},
	"xtn %.4h, %.4s":                   {0x0e612800, none},
	"xtn2 %.8h, %.4s":                  {0x4e612800, none},
	"xtn %.8b, %.8h":                   {0x0e212800, none},
	"xtn2 %.16b, %.8h":                 {0x4e212800, none},
	"zip1 %.4s, %.4s, %.4s":            {0x4e803800, none},
	"zip2 %.4s, %.4s, %.4s":            {0x4e807800, none},
	"zip1 %.2d, %.2d, %.2d":            {0x4ec03800, none},
	"zip2 %.2d, %.2d, %.2d":            {0x4ec07800, none},
	"uzp1 %.4s, %.4s, %.4s":            {0x4e801800, none},
	"uzp2 %.4s, %.4s, %.4s":            {0x4e805800, none},
	"dup %.4s, %.s[#]":                 {0x4e040400, lane},
	"dup %.4s, w%":                     {0x4e040c00, none},
	"dup %.2d, x%":                     {0x4e080c00, none},
	"dup %.16b, w%":                    {0x4e010c00, none},
	"ext %.16b, %.16b, %.16b, #":       {0x6e000000, extract},
	"movi %.16b, #":                    {0x4f00e400, byteOf},
	"sshr %.4s, %.4s, #":               {0x4f400400, right},
	"sshr %.16b, %.16b, #":             {0x4f100400, right},
	"ushr %.4s, %.4s, #":               {0x6f400400, right},
	"ushr %.16b, %.16b, #":             {0x6f100400, right},
	"shl %.4s, %.4s, #":                {0x4f205400, left},
	"shl %.2d, %.2d, #":                {0x4f405400, left},
	"shl %.16b, %.16b, #":              {0x4f085400, left},
	"sri %.16b, %.16b, #":              {0x6f104400, right},
	"sli %.16b, %.16b, #":              {0x6f085400, left},
	"shll %.4s, %.4h, #16":             {0x2e613800, none},
	"shll2 %.4s, %.8h, #16":            {0x6e613800, none},
	"cmlt %.4s, %.4s, #0":              {0x4ea0a800, none},
	"fcmeq %.4s, %.4s, #0.0":           {0x4ea0d800, none},
	"fcmlt %.4s, %.4s, #0.0":           {0x4ea0e800, none},
	"mov %.16b, %.16b":                 {0x4ea01c00, none},
	"mov w%, %.s[#]":                   {0x0e043c00, lane},
	"fmov w%, s%":                      {0x1e260000, none},
	"fmov s%, w%":                      {0x1e270000, none},
	"fmov x%, d%":                      {0x9e660000, none},
	"ld1r {%.4s}, [x%]":                {0x4d40c800, none},
	"neg %.4s, %.4s":                   {0x6ea0b800, none},
	"abs %.4s, %.4s":                   {0x4ea0b800, none},
	"cnt %.16b, %.16b":                 {0x4e205800, none},
	"fcvtns %.2d, %.2d":                {0x4e61a800, none},
	"fcvtzs %.2d, %.2d":                {0x4ee1b800, none},
	"fmls %.4s, %.4s, %.s[#]":          {0x4f805000, element},
	"fminnm %.4s, %.4s, %.4s":          {0x4ea0c400, none},
	"ushll %.2d, %.2s, #0":             {0x2f20a400, none},
	"ushll2 %.2d, %.4s, #0":            {0x6f20a400, none},
	"fcvtzu %.2d, %.2d":                {0x6ee1b800, none},
	"fmax %.2d, %.2d, %.2d":            {0x4e60f400, none},
	"tbl %.16b, {%.16b, +.16b}, %.16b": {0x4e002000, none},
	"add d%, d%, d%":                   {0x5ee08400, none},
	"addp d%, %.2d":                    {0x5ef1b800, none},
	"and %.8b, %.8b, %.8b":             {0x0e201c00, none},
	"dup %.2d, %.d[#]":                 {0x4e080400, laneOfTwo},
	"rev64 %.4s, %.4s":                 {0x4ea00800, none},
	"trn1 %.4s, %.4s, %.4s":            {0x4e802800, none},
	"trn2 %.4s, %.4s, %.4s":            {0x4e806800, none},
	"fcvtn %.2s, %.2d":                 {0x0e616800, none},
}
