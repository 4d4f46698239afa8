package rest

import (
	"net/url"
	"strconv"
	"strings"
)

// param gives a query parameter; an empty value means absent (section 1). It reads the raw query, so that the hot
// path builds no map, and refuses what package url would silently drop.
func (c *call) param(name string) (value string, err error) {
	found := false
	for rest, pair := c.r.URL.RawQuery, ""; rest != ""; {
		pair, rest, _ = strings.Cut(rest, "&")
		key, v, _ := strings.Cut(pair, "=")
		if key, err = url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		if found {
			return "", invalid("the query has %s twice", name)
		}
		found = true
		if value, err = url.QueryUnescape(v); err != nil {
			return "", invalid("%s in the query has a bad percent escape", name)
		}
	}
	return value, nil
}

// page bounds the number of items on a page: what is not asked for is the default, what is too much is clamped.
type page struct{ usual, most int }

// limit reads the query's limit (section 7).
func (c *call) limit(p page) (int, error) {
	s, err := c.param("limit")
	if err != nil || s == "" {
		return p.usual, err
	}
	if !allDigits(s) || strings.Trim(s, "0") == "" {
		return 0, invalid("limit must be a whole number from 1 to %d, not %q", p.most, shorten(s))
	}
	n, err := strconv.Atoi(s)
	if err != nil { // more digits than an int has
		return p.most, nil
	}
	return min(n, p.most), nil
}

// meta appends what follows a page (section 7). Without a marker the page is the last one.
func meta(b []byte, limit int, marker string) []byte {
	b = number(append(b, `,"meta":{`...), "limit", uint64(limit))
	if marker == "" {
		return append(b, `,"has_more":false}`...)
	}
	return append(text(append(b, ','), "marker", marker), `,"has_more":true}`...)
}
