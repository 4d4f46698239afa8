package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
)

// Paths of section 5, and those of what is ours, which have a prefix that the platform does not use.
const (
	extensionPath = "/x"
	movesPath     = extensionPath + queuePath + "/moves"
	depthPath     = extensionPath + queuePath + "/depth"
	depthsPath    = extensionPath + "/v1/depths"
	movePath      = movesPath + "/{move_id}"
	historyPath   = extensionPath + messagesPath + "/{message_id}/history"
	queuesPath    = "/v1/queues"
	queuePath     = "/v1/queues/{queue_id}"
	messagesPath  = "/v1/queues/{queue_id}/messages"
)

// access says what must be settled before an operation runs, in the order of section 2.3: who calls, then whether
// the queue exists.
type access int

const (
	inQueue    access = iota // the path names a queue, which must exist; it is in call.queue
	byPath                   // the path names a queue, which the operation looks up itself
	inAccount                // acts on the account as a whole: another's is denied
	tokens                   // not authenticated: it is how credentials are got
	revocation               // authenticated, acts on no account
	public                   // not authenticated: the same for everybody
)

// anonymous says that an operation is run for whoever calls.
func (a access) anonymous() bool { return a == tokens || a == public }

// operation is one row of section 5.
type operation struct {
	name, method, path string
	access             access
	action             auth.Action // what the caller must be allowed; none for the token endpoint
	shows              auth.Action // of a list: also what it shows, if asked for alone
	run                func(*call) error
}

// endpoint is the operation as the hosts know it.
func (op *operation) endpoint() api.Endpoint {
	return api.Endpoint{
		Name: op.name, Method: op.method, Path: op.path,
		New:     func(s api.Services) (http.Handler, error) { return serve(configure(s), []*operation{op}) },
		Encoded: encoded, Fail: fail,
	}
}

// configure takes what a host gives every dialect.
func configure(s api.Services) Config {
	c := Config{Auth: s.Auth, Tokens: s.Tokens, Region: s.Region, Secret: s.Secret, Logger: s.Logger, Failed: s.Failed, Served: s.Served}
	if s.Broker != nil { // a nil pointer in an interface would not look missing
		c.Broker = s.Broker
	}
	return c
}

// operations are all there are, in the order of section 5, and then ours.
func operations() []*operation {
	return []*operation{
		createQueue, listQueues, describeQueue, updateQueue, deleteQueue, purgeQueue,
		sendMessage, sendMessageBatch, receiveMessages, peekMessages, deleteMessage, deleteMessageBatch,
		changeMessageVisibility, changeMessageVisibilityBatch,
		createToken, revokeToken,
		startMove, listMoves, describeMove, cancelMove,
		describeDepth, listDepths,
		listHistory,
	}
}

// Endpoints lists every operation, for the tests that hold functions/, template.yaml and this list equal.
func Endpoints() []api.Endpoint {
	var all []api.Endpoint
	for _, op := range operations() {
		all = append(all, op.endpoint())
	}
	return all
}

// The endpoints, one per operation: what a Lambda function serves.
var (
	CreateQueue                  = createQueue.endpoint()
	ListQueues                   = listQueues.endpoint()
	DescribeQueue                = describeQueue.endpoint()
	UpdateQueue                  = updateQueue.endpoint()
	DeleteQueue                  = deleteQueue.endpoint()
	PurgeQueue                   = purgeQueue.endpoint()
	SendMessage                  = sendMessage.endpoint()
	SendMessageBatch             = sendMessageBatch.endpoint()
	ReceiveMessages              = receiveMessages.endpoint()
	PeekMessages                 = peekMessages.endpoint()
	DeleteMessage                = deleteMessage.endpoint()
	DeleteMessageBatch           = deleteMessageBatch.endpoint()
	ChangeMessageVisibility      = changeMessageVisibility.endpoint()
	ChangeMessageVisibilityBatch = changeMessageVisibilityBatch.endpoint()
	CreateToken                  = createToken.endpoint()
	RevokeToken                  = revokeToken.endpoint()
	StartMove                    = startMove.endpoint()
	ListMoves                    = listMoves.endpoint()
	DescribeMove                 = describeMove.endpoint()
	CancelMove                   = cancelMove.endpoint()
	DescribeDepth                = describeDepth.endpoint()
	ListDepths                   = listDepths.endpoint()
	ListHistory                  = listHistory.endpoint()
)
