package device

import (
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// Budget is how much of a device's memory a stage may use: a size in bytes, or a
// percentage of the memory that is free. The zero value means that no budget was given.
type Budget struct {
	given    bool
	percent  bool
	bytes    int64 // if percent is false
	fraction int64 // of the free memory if percent is true, in units of 1/fractionUnit
}

const fractionUnit = 100 * 1_000_000 // a percentage has up to six decimals

// parseBudget parses a budget: a size, as ParseSize reads it, or a percentage of the free
// memory from 0% to 100%. Decimals of a percentage after the sixth are dropped.
func parseBudget(s string) (Budget, error) {
	number, percent := strings.CutSuffix(s, "%")
	if !percent {
		n, err := ParseSize(s)
		return Budget{given: err == nil, bytes: n}, err
	}
	r, err := decimal(number)
	if err != nil {
		return Budget{}, fmt.Errorf("%.40q is not a percentage: %w", s, err)
	}
	fraction := whole(r, fractionUnit/100)
	if !fraction.IsInt64() || fraction.Int64() > fractionUnit {
		return Budget{}, fmt.Errorf("%.40q is more than all of the free memory: use 0%% to 100%%", s)
	}
	return Budget{given: true, percent: true, fraction: fraction.Int64()}, nil
}

// Given reports whether b is a budget, and not the zero value.
func (b Budget) Given() bool { return b.given }

// Bytes returns the budget in bytes for a device with free bytes of free memory, or -1 if
// no budget was given. A percentage is an error if free is not positive, which means that
// the free memory is not known.
func (b Budget) Bytes(free int64) (int64, error) {
	switch {
	case !b.given:
		return -1, nil
	case !b.percent:
		return b.bytes, nil
	case free <= 0:
		return 0, fmt.Errorf("a budget of %s, but the device's free memory isn't known: give a size", b)
	}
	hi, lo := bits.Mul64(uint64(free), uint64(b.fraction))
	n, _ := bits.Div64(hi, lo, fractionUnit) // at most free, since fraction ≤ fractionUnit
	return int64(n), nil
}

// String returns the budget as it is written in a device list, a number of bytes or a
// percentage, or "none" if no budget was given.
func (b Budget) String() string {
	switch {
	case !b.given:
		return "none"
	case !b.percent:
		return fmt.Sprint(b.bytes)
	}
	return new(big.Rat).SetFrac64(b.fraction, fractionUnit/100).FloatString(6) + "%"
}
