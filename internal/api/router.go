package api

import (
	"net/url"
	"slices"
	"strings"
)

// paramsMax bounds how many {name} segments a path has, so that a match needs no memory of its own.
const paramsMax = 4

// Router finds the value of a route. It splits the raw path on "/" first and decodes each segment after, so that a
// segment may hold an encoded slash. It never cleans a path and never redirects: clients follow no redirects, and an
// empty or a dotted segment is a segment like any other.
type Router[T any] struct {
	root node[T]
}

// Match is what a path leads to.
type Match[T any] struct {
	Value T
	// Found is true when the path is known with this method.
	Found bool
	// Allow lists the methods of a known path, as in the header of that name. Empty: the path is unknown.
	Allow string
	// Params are the decoded segments that stand for {name}, in their order.
	Params [paramsMax]string
}

// node is one segment of the known paths. A fixed segment goes before a {name}, and there is no way back from it.
type node[T any] struct {
	fixed  map[string]*node[T]
	param  *node[T]
	routes []route[T]
	allow  string
}

type route[T any] struct {
	method string
	value  T
}

// Add puts a route in. It panics on a route that is there already or has too many params: both are slips in a table.
func (r *Router[T]) Add(method, path string, value T) {
	n := &r.root
	params := 0
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if strings.HasPrefix(segment, "{") {
			params++
		}
		n = n.child(segment)
	}
	if params > paramsMax || slices.ContainsFunc(n.routes, func(o route[T]) bool { return o.method == method }) {
		panic("api: a second route, or too many params: " + method + " " + path)
	}
	n.routes = append(n.routes, route[T]{method, value})
	n.allow = allow(n.routes)
}

func (n *node[T]) child(segment string) *node[T] {
	if strings.HasPrefix(segment, "{") {
		if n.param == nil {
			n.param = new(node[T])
		}
		return n.param
	}
	if n.fixed == nil {
		n.fixed = map[string]*node[T]{}
	}
	if n.fixed[segment] == nil {
		n.fixed[segment] = new(node[T])
	}
	return n.fixed[segment]
}

// allow is the value of the Allow header, in the order of the alphabet.
func allow[T any](routes []route[T]) string {
	methods := make([]string, len(routes))
	for i, r := range routes {
		methods[i] = r.method
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// Find looks a request up.
func (r *Router[T]) Find(method string, u *url.URL) (m Match[T]) {
	n, params := &r.root, 0
	path, raw := rawPath(u)
	if !strings.HasPrefix(path, "/") {
		return m
	}
	path = path[1:]
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		if raw {
			var err error
			if segment, err = url.PathUnescape(segment); err != nil {
				return m
			}
		}
		if next := n.fixed[segment]; next != nil {
			n = next
			continue
		}
		if n.param == nil || segment == "" {
			return m
		}
		m.Params[params] = segment
		params++
		n = n.param
	}
	m.Allow = n.allow
	for _, route := range n.routes {
		if route.method == method {
			m.Value, m.Found = route.value, true
		}
	}
	return m
}

// rawPath gives the path as it was sent, or the decoded one where that splits into the same segments: package url
// keeps RawPath only when the plain encoding of Path is another, which is always so when a segment holds a slash.
func rawPath(u *url.URL) (path string, raw bool) {
	if u.RawPath != "" {
		return u.RawPath, true
	}
	return u.Path, false
}
