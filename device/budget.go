package device

import (
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// Budget is what a place of a device list may hold: a size, a share of the
// device's free memory, or nothing said, which is the zero value.
type Budget struct {
	given   bool
	percent bool
	bytes   int64
	share   int64 // instead, where percent is set: of the free memory, in 1/shareUnit
}

const shareUnit = 100 * 1_000_000 // six decimals of a percent

// ParseBudget reads a budget: a size as ParseSize reads it, or a percentage of
// the free memory from 0% to 100%, with up to six decimals.
func ParseBudget(s string) (Budget, error) {
	number, percent := strings.CutSuffix(s, "%")
	if !percent {
		n, err := ParseSize(s)
		return Budget{given: err == nil, bytes: n}, err
	}
	r, err := decimal(number)
	if err != nil {
		return Budget{}, fmt.Errorf("%.40q is not a percentage: %w", s, err)
	}
	share := whole(r, shareUnit/100)
	if !share.IsInt64() || share.Int64() > shareUnit {
		return Budget{}, fmt.Errorf("%.40q is more than all of the free memory: use 0%% to 100%%", s)
	}
	return Budget{given: true, percent: true, share: share.Int64()}, nil
}

// Given says whether a budget was stated.
func (b Budget) Given() bool { return b.given }

// Bytes returns the budget in bytes on a device with so much free memory, or -1
// where none was given. A percentage of a free memory that isn't known (0 or
// less) is an error.
func (b Budget) Bytes(free int64) (int64, error) {
	switch {
	case !b.given:
		return -1, nil
	case !b.percent:
		return b.bytes, nil
	case free <= 0:
		return 0, fmt.Errorf("a budget of %s, but the device's free memory isn't known: give a size", b)
	}
	hi, lo := bits.Mul64(uint64(free), uint64(b.share))
	n, _ := bits.Div64(hi, lo, shareUnit) // at most free, since share ≤ shareUnit
	return int64(n), nil
}

// String returns the budget as a list spells it, in bytes or per cent; "none"
// where none was given.
func (b Budget) String() string {
	switch {
	case !b.given:
		return "none"
	case !b.percent:
		return fmt.Sprint(b.bytes)
	}
	return new(big.Rat).SetFrac64(b.share, shareUnit/100).FloatString(6) + "%"
}
