package auth

import "strings"

// Action is an operation as policies name it: service, colon, the operation's name with a capital.
type Action struct {
	// Name is the action that is needed.
	Name string
	// Batch is the operation's own name where it does many at once: a batch needs the action of its single form, and a
	// policy may speak of it by its own name too (API page, section 2.3).
	Batch string
}

// The actions of the queue service. Those of move tasks and depths are ours.
var (
	CreateQueue                  = Action{Name: "queue:CreateQueue"}
	ListQueues                   = Action{Name: "queue:ListQueues"}
	DescribeQueue                = Action{Name: "queue:DescribeQueue"}
	UpdateQueue                  = Action{Name: "queue:UpdateQueue"}
	DeleteQueue                  = Action{Name: "queue:DeleteQueue"}
	PurgeQueue                   = Action{Name: "queue:PurgeQueue"}
	SendMessage                  = Action{Name: "queue:SendMessage"}
	SendMessageBatch             = Action{Name: "queue:SendMessage", Batch: "queue:SendMessageBatch"}
	ReceiveMessages              = Action{Name: "queue:ReceiveMessages"}
	PeekMessages                 = Action{Name: "queue:PeekMessages"}
	DeleteMessage                = Action{Name: "queue:DeleteMessage"}
	DeleteMessageBatch           = Action{Name: "queue:DeleteMessage", Batch: "queue:DeleteMessageBatch"}
	StartMove                    = Action{Name: "queue:StartMove"}
	ListMoves                    = Action{Name: "queue:ListMoves"}
	DescribeMove                 = Action{Name: "queue:DescribeMove"}
	CancelMove                   = Action{Name: "queue:CancelMove"}
	DescribeDepth                = Action{Name: "queue:DescribeDepth"}
	ListDepths                   = Action{Name: "queue:ListDepths"}
	ListHistory                  = Action{Name: "queue:ListHistory"}
	ChangeMessageVisibility      = Action{Name: "queue:ChangeMessageVisibility"}
	ChangeMessageVisibilityBatch = Action{Name: "queue:ChangeMessageVisibility", Batch: "queue:ChangeMessageVisibilityBatch"}
)

// Actions lists them all.
var Actions = []Action{CreateQueue, ListQueues, DescribeQueue, UpdateQueue, DeleteQueue, PurgeQueue, SendMessage, SendMessageBatch,
	ReceiveMessages, PeekMessages, DeleteMessage, DeleteMessageBatch, ChangeMessageVisibility, ChangeMessageVisibilityBatch,
	StartMove, ListMoves, DescribeMove, CancelMove, DescribeDepth, ListDepths, ListHistory}

// ours is the prefix of the actions that this server knows all of.
const ours = "queue:"

// names an action: a pattern that matches nothing which exists is a slip, and a slip in a deny would open what it was
// meant to close. Of other services this server knows nothing, so their names pass and match nothing here.
func names(pattern string) bool {
	service, _, ok := strings.Cut(pattern, ":")
	if !ok || service == "" {
		return pattern == "*"
	}
	if service+":" != ours && !strings.ContainsAny(service, "*?") {
		return true
	}
	for _, a := range Actions {
		if a.matches(pattern) {
			return true
		}
	}
	return false
}

// matches says whether a pattern speaks of the action, under either name.
func (a Action) matches(pattern string) bool {
	return matches(pattern, a.Name) || a.Batch != "" && matches(pattern, a.Batch)
}

func (a Action) String() string { return a.Name }
