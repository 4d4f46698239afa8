// Package fault is the one error type that a user may see.
//
// The rules and the use cases return faults for what a caller can act on. Everything else is a plain error; the
// edge turns it into Internal with a fixed text, so that no inner detail leaves the process.
package fault

import (
	"errors"
	"fmt"
)

// Code names a kind of failure. Each dialect has one table from Code to its own wire error, and a test holds
// every table complete.
type Code string

const (
	Invalid      Code = "invalid"       // the request is wrong; sending it again will not help
	TooLarge     Code = "too_large"     // a message is larger than its queue allows
	Unauthorized Code = "unauthorized"  // credentials are missing or wrong
	Denied       Code = "denied"        // credentials are right, the action is not allowed
	NotFound     Code = "not_found"     // there is no such queue (any more)
	Exists       Code = "exists"        // the name is taken
	ForeignLease Code = "foreign_lease" // a receipt that is garbled, forged or of another queue
	LeaseEnded   Code = "lease_ended"   // a receipt whose lease has lapsed, was released or was replaced
	KeyMismatch  Code = "key_mismatch"  // an idempotency key that was used for another request
	KeyInUse     Code = "key_in_use"    // an idempotency key whose first request is still running
	Quota        Code = "quota"         // a configured quota is used up
	Limit        Code = "limit"         // a limit of the shard is reached; it passes by itself
	KeyLost      Code = "key_lost"      // the key that wraps the queue's keys cannot be used now
	Unavailable  Code = "unavailable"   // the store refused, or the process is stopping; nothing was done
	Unconfirmed  Code = "unconfirmed"   // the store has not answered; the effect may still come
	Internal     Code = "internal"      // a fault of ours
)

// Codes lists every code, for the tests of the dialects' tables.
var Codes = []Code{Invalid, TooLarge, Unauthorized, Denied, NotFound, Exists, ForeignLease, LeaseEnded, KeyMismatch, KeyInUse, Quota, Limit,
	KeyLost, Unavailable, Unconfirmed, Internal}

// Error is a failure with a text for the user and a cause for the log.
type Error struct {
	Code    Code
	Message string // says what is wrong and what would be right; never holds a secret or a body
	cause   error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + ": " + e.cause.Error()
}

func (e *Error) Unwrap() error { return e.cause }

// New makes a fault whose message is formatted for the user.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Because is New with a cause that only the log shows.
func Because(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), cause: cause}
}

// Of gives the fault in err's chain. An error without one is Internal with a fixed text and err as its cause.
func Of(err error) *Error {
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	return &Error{Code: Internal, Message: "something went wrong here; the request id finds it in the server's log", cause: err}
}

// Is says whether err is a fault of this code.
func Is(err error, code Code) bool {
	if err == nil {
		return false
	}
	var f *Error
	return errors.As(err, &f) && f.Code == code
}
