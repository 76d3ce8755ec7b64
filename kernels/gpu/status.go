package gpu

import (
	"fmt"

	"github.com/leat-dev/leat/device"
)

var opNames = [...]string{opEmbed: "Embed", opRoPE: "RoPE", opStoreKV: "StoreKV", opAttention: "Attention", opGather: "Gather"}

func (o op) String() string {
	if int(o) < len(opNames) && opNames[o] != "" {
		return opNames[o]
	}
	return fmt.Sprintf("op %d", uint32(o))
}

// explain is what a kernel found wrong with a batch's header, in words. What the
// host sees by itself never gets that far: the header lies on the device, which
// alone knows its tokens, positions and pages.
func explain(status [device.StatusWords]uint32) error {
	o, a, b, c := op(status[1]), int32(status[2]), int32(status[3]), int32(status[4])
	switch wrong(status[0]) {
	case tokenOutside:
		return fmt.Errorf("%v: row %d is token %d, the table has %d", o, a, b, c)
	case positionNegative:
		return fmt.Errorf("%v: row %d is at position %d", o, a, b)
	case tableShort:
		return fmt.Errorf("%v: row %d needs word %d of the page tables, which have %d", o, a, b, c)
	case pageOutside:
		return fmt.Errorf("%v: row %d is on page %d of a cache that has %d for it", o, a, b, c)
	case outputOutside:
		return fmt.Errorf("%v: output %d is row %d of %d", o, a, b, c)
	case headerDiffers:
		return fmt.Errorf("%v: the header holds %d rows, %d outputs and %d table words, which is not what the batch says", o, a, b, c)
	}
	return fmt.Errorf("%v: the kernel reports %d", o, status)
}
