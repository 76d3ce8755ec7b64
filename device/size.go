package device

import (
	"fmt"
	"math/big"
	"strings"
)

// ParseSize reads a size in bytes: a number and a unit of 1000s (KB, MB, GB,
// TB, PB, EB) or of 1024s (KiB, MiB, …), as in 20GB, 512MiB, 1.5GiB; B or no
// unit is bytes. Letters may be of either case, and a space may stand before the
// unit. The number is read exactly, as a decimal; a fraction of a byte is
// dropped.
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
		return 0, fmt.Errorf("the size %.40q is over the largest there is, 2^63-1 bytes", s)
	}
	return n.Int64(), nil
}

// FormatSize returns a size for people: "512 B", "9.8 GiB", with one decimal
// and units of 1024s. ParseSize reads it, but the digits not shown are lost.
func FormatSize(n int64) string {
	if n < 0 {
		if n = -n; n < 0 {
			return "-8.0 EiB" // the one number whose negative isn't there
		}
		return "-" + FormatSize(n)
	}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	units := "KMGTPE"
	i := -1
	// Past x.95 one decimal would round up to 1024.0 of the smaller unit.
	for v >= 1023.95 && i < len(units)-1 || i < 0 {
		v /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// unitBytes returns how many bytes a unit is.
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

// decimal reads a number of digits with at most one point: no sign, no exponent.
func decimal(s string) (*big.Rat, error) {
	const longest = 40 // digits; more than any number that can be meant
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

// whole returns r·unit without its fraction.
func whole(r *big.Rat, unit int64) *big.Int {
	n := new(big.Int).Mul(r.Num(), big.NewInt(unit))
	return n.Quo(n, r.Denom())
}
