package rest

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

// call is one request on its way. Calls are pooled: nothing that outlives the request may point into their buffers,
// so whatever goes to the broker is copied out of body, and whatever goes into a header is a string of its own.
type call struct {
	h      *handler
	ctx    context.Context
	w      http.ResponseWriter
	r      *http.Request
	op     *operation
	ref    string // the path's {queue_id}, decoded
	item   string // the path's {move_id} or {message_id}
	id     [36]byte
	caller auth.Caller
	queue  *broker.Queue // for an operation inQueue
	sent   bool          // the answer has been written
	served api.Served    // what is told of the request

	body []byte // the request's, decoded
	out  []byte // the answer's
	scan scan
	// What the scanner reads into: kept here so that a hot request allocates none of it.
	receive receiveInput
	sends   []sendEntry
	leases  []leaseEntry
	extends []extendEntry

	key     string // the idempotency key
	reached bool   // the broker was asked for the command, or told of its refusal
	torn    bool   // the body was not read to its end
}

// pooledBytesMax bounds the buffers that a pooled call keeps; a rare large request must not hold memory for ever.
const pooledBytesMax = 256 << 10

func (c *call) begin(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil { // as a host may have it that is no HTTP server
		r.Body = http.NoBody
	}
	c.ctx, c.w, c.r, c.out = api.Unattended(r.Context()), w, r, c.out[:0]
	c.id = requestID()
	if c.h.Served != nil {
		c.served.Began = time.Now()
	}
}

// told tells whoever listens how the request went.
func (c *call) told() {
	if c.h.Served == nil {
		return
	}
	s := &c.served
	s.Request, s.ID, s.Queue, s.Took = c.r, c.id, c.queue, time.Since(s.Began)
	if c.op != nil {
		s.Operation = c.op.name
	}
	c.h.Served(s)
}

// watched is the writer of an answer that others write, which tells its status.
type watched struct {
	http.ResponseWriter
	served *api.Served
}

// WriteHeader notes the status.
func (w watched) WriteHeader(status int) {
	w.served.Status = status
	w.ResponseWriter.WriteHeader(status)
}

// end forgets the request, in the entries beyond the lengths too.
func (c *call) end() {
	if cap(c.body) > pooledBytesMax {
		c.scan = scan{} // it refers to the body
	}
	clear(c.sends[:cap(c.sends)])
	clear(c.leases[:cap(c.leases)])
	clear(c.extends[:cap(c.extends)])
	c.ctx, c.w, c.r, c.op, c.ref, c.item, c.queue, c.sent = nil, nil, nil, nil, "", "", nil, false
	c.key, c.reached, c.torn = "", false, false
	c.caller, c.receive, c.served = auth.Caller{}, receiveInput{}, api.Served{}
	c.body, c.out = keep(c.body), keep(c.out)
	c.sends, c.leases, c.extends = c.sends[:0], c.leases[:0], c.extends[:0]
}

func keep(b []byte) []byte {
	if cap(b) > pooledBytesMax {
		return nil
	}
	return b[:0]
}

// recovered turns a panic into an internal error. net/http's own way to abort an answer is passed on.
func (c *call) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	c.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	c.told()
}

// run settles, in the order of section 2.3, who calls, which operation it is, whether its queue exists and whether the
// caller may do it there.
func (c *call) run() error {
	m := c.h.router.Find(c.r.Method, c.r.URL)
	if !m.Found || !m.Value.access.anonymous() {
		var err error
		if c.caller, err = c.h.Auth.Authenticate(c.r); err != nil {
			return unauthenticated(err)
		}
	}
	if !m.Found {
		return unrouted(c.r.Method, m.Allow)
	}
	c.op, c.ref, c.item = m.Value, m.Params[0], m.Params[1]
	if c.op.access == tokens || c.op.access == revocation {
		c.w = watched{c.w, &c.served}
	}
	if err := c.allowed(); err != nil {
		return err
	}
	return c.counted()
}

func (c *call) context() context.Context { return c.ctx }

// jsonType is the header's value in every answer with a body; the server copies it and does not change it.
var jsonType = []string{"application/json"}

// json answers with what is in out. The id and the length are cut from one string, the two header values from one
// slice: this runs for every message.
func (c *call) json(status int) {
	var text [36 + 20]byte
	copy(text[:], c.id[:])
	all := string(strconv.AppendInt(text[:36], int64(len(c.out)), 10))
	values := []string{all[:36], all[36:]}
	header := c.w.Header()
	header["Content-Type"] = jsonType
	header["X-Request-Id"] = values[0:1:1]
	header["Content-Length"] = values[1:2:2]
	c.sent, c.served.Status = true, status
	c.w.WriteHeader(status)
	c.w.Write(c.out) // a caller that has gone is nobody's error
}

// nothing answers without a body.
func (c *call) nothing() {
	c.stamp()
	c.sent, c.served.Status = true, http.StatusNoContent
	c.w.WriteHeader(http.StatusNoContent)
}

// stamp puts the request's id into the header.
func (c *call) stamp() { c.w.Header()["X-Request-Id"] = []string{string(c.id[:])} }

// requestID makes a random UUID. It names a request in the log and guards nothing, so the runtime's own generator
// (ChaCha8, one per thread, no lock) is good enough.
func requestID() (id [36]byte) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	putUUID(&id, b)
	return id
}

// putUUID writes the canonical form.
func putUUID(s *[36]byte, b [16]byte) {
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
}
