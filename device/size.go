package device

import (
	"fmt"
	"math/big"
	"strings"
)

// ParseSize parses a size, such as 20GB, 512MiB or 1.5GiB, and returns it in bytes. The
// unit is B or left out for bytes, a power of 1000 (KB, MB, GB, TB, PB, EB) or a power of
// 1024 (KiB, MiB, GiB, TiB, PiB, EiB). Case doesn't matter, and spaces may precede the
// unit. The number is an exact decimal; a fraction of a byte is dropped.
func ParseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "bBkKmMgGtTpPeEiI")
	unit, ok := unitBytes(s[len(number):])
	if !ok {
		return 0, fmt.Errorf("%.40q is not a size: the unit may be B, KB, MB, GB (of 1000s) or KiB, MiB, GiB (of 1024s)", s)
	}
	r, err := decimal(strings.TrimRight(number, " "))
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a size: %w", s, err)
	}
	n := whole(r, unit)
	if !n.IsInt64() {
		return 0, fmt.Errorf("the size %.40q is larger than the maximum of 2^63-1 bytes", s)
	}
	return n.Int64(), nil
}

// FormatSize returns a size in bytes in a form for people, with one decimal and a unit
// that is a power of 1024: "512 B", "9.8 GiB". ParseSize can parse it, with the precision
// of what is shown.
func FormatSize(n int64) string {
	if n < 0 {
		if n = -n; n < 0 {
			return "-8.0 EiB" // the minimum int64 has no positive counterpart
		}
		return "-" + FormatSize(n)
	}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	units := "KMGTPE"
	i := -1
	// From 1023.95 on, one decimal would round up to 1024.0, so use the next unit.
	for v >= 1023.95 && i < len(units)-1 || i < 0 {
		v /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// unitBytes returns the number of bytes in a unit, and false if there is no such unit.
func unitBytes(unit string) (int64, bool) {
	unit = strings.ToUpper(unit)
	if unit == "" || unit == "B" {
		return 1, true
	}
	power := int64(strings.IndexByte("KMGTPE", unit[0]) + 1)
	base := int64(1000)
	switch unit[1:] {
	case "B":
	case "IB":
		base = 1024
	default:
		return 0, false
	}
	if power == 0 {
		return 0, false
	}
	n := int64(1)
	for range power {
		n *= base
	}
	return n, true
}

// decimal parses a decimal number: digits with at most one point, without sign or exponent.
func decimal(s string) (*big.Rat, error) {
	const longest = 40 // characters; enough for every number in range
	switch {
	case s == "":
		return nil, fmt.Errorf("there is no number")
	case s[0] == '-':
		return nil, fmt.Errorf("it is negative")
	case strings.Trim(s, "0123456789.") != "" || len(s) > longest:
		return nil, fmt.Errorf("%.40q is not a number", s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, fmt.Errorf("%.40q is not a number", s)
	}
	return r, nil
}

// whole returns r·unit, rounded towards zero.
func whole(r *big.Rat, unit int64) *big.Int {
	n := new(big.Int).Mul(r.Num(), big.NewInt(unit))
	return n.Quo(n, r.Denom())
}
