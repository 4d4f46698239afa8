package rest

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leaselog/leaselog/events"
)

// fifoSuffix makes a queue FIFO (section 4.1).
const fifoSuffix = ".fifo"

// checkName says what is wrong with a queue's name (section 4.1). Names that could be read as another kind of
// reference are refused: a CRN has a colon, which is not among the characters, and a UUID is one that could be looked
// up by id, in the forms that the characters leave: with dashes and without.
func checkName(name string) error {
	if name == "" || len(name) > nameBytesMax {
		return invalid("name must have 1 to %d characters, not %d", nameBytesMax, len(name))
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return invalid("name may hold letters, digits, '.', '-' and '_' only; the character at %d is another", i+1)
		}
	}
	if !alphanumeric(name[0]) {
		return invalid("name must begin with a letter or a digit, not %q", name[:1])
	}
	if _, is := events.ParseUUID(name); is || compactUUID(name) {
		return invalid("name must not be a UUID, which would name a queue by its id")
	}
	return nil
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// compactUUID is the form of 32 hexadecimal digits.
func compactUUID(s string) bool {
	if len(s) != 32 {
		return false
	}
	for i := range len(s) {
		if c := s[i] | 0x20; !(s[i] >= '0' && s[i] <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

func isFifo(name string) bool { return strings.HasSuffix(name, fifoSuffix) }

// regionOK is the syntax of section 1: [a-z0-9]+(-[a-z0-9]+)*.
func regionOK(region string) bool {
	for word := range strings.SplitSeq(region, "-") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return false
		}
	}
	return true
}

// checkText holds a text to a number of characters.
func checkText(what, text string, low, high int) error {
	if n := utf8.RuneCountInString(text); n < low || n > high {
		return invalid("%s must have %d to %d characters, not %d", what, low, high, n)
	}
	return nil
}

// checkID holds a group or deduplication id to section 4.5.
func checkID(what, id string) error {
	if err := checkText(what, id, 1, groupMax); err != nil {
		return err
	}
	if strings.ContainsFunc(id, unicode.IsControl) {
		return invalid("%s must not hold control characters", what)
	}
	return nil
}

// decimal says whether s is a decimal number with an optional sign, fraction and exponent (section 4.5).
func decimal(s string) bool {
	s = unsigned(s)
	mantissa, exponent, has := s, "", false
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent, has = s[:i], unsigned(s[i+1:]), true
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return allDigits(whole+fraction) && (!has || allDigits(exponent))
}

func unsigned(s string) string {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		return s[1:]
	}
	return s
}

// allDigits demands at least one.
func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
