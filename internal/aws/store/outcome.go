package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// refusals are the errors by which DynamoDB says that it did nothing, and whether it would say so again to the same
// request. Whatever is not listed leaves the outcome unknown: a server's fault, a broken connection, a time that ran
// out, and TransactionInProgressException, which speaks of an earlier attempt of the same commit.
//
// See "Error handling with DynamoDB" in its developer guide, and the errors of PutItem, UpdateItem and
// TransactWriteItems in its API reference.
var refusals = map[string]bool{
	"TransactionConflictException":             false,
	"ReplicatedWriteConflictException":         false,
	"ProvisionedThroughputExceededException":   false,
	"RequestLimitExceeded":                     false,
	"ThrottlingException":                      false,
	"ResourceNotFoundException":                false,
	"AccessDeniedException":                    false,
	"UnrecognizedClientException":              false,
	"ExpiredTokenException":                    false,
	"InvalidSignatureException":                false,
	"IncompleteSignatureException":             false,
	"MissingAuthenticationTokenException":      false,
	"ValidationException":                      true,
	"SerializationException":                   true,
	"ItemCollectionSizeLimitExceededException": true,
}

// outcome tells the outcomes of a write apart. Where conditions failed, it gives for each operation what stands at its
// place: nil where the condition held, an empty item where DynamoDB does not tell.
func outcome(err error) (lost []item, _ error) {
	var failed *types.ConditionalCheckFailedException
	var cancelled *types.TransactionCanceledException
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &failed):
		return []item{told(failed.Item)}, nil
	case errors.As(err, &cancelled):
		return reasons(cancelled.CancellationReasons)
	}
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= 500 || !errors.As(err, &api) {
		return nil, err
	}
	content, ok := refusals[api.ErrorCode()]
	if !ok {
		return nil, err
	}
	return nil, &eventlog.Refused{Content: content, Cause: err}
}

// reasons reads why a transaction was cancelled, operation by operation. It certainly did nothing.
func reasons(all []types.CancellationReason) (lost []item, err error) {
	met, content := false, false
	var codes []string
	lost = make([]item, len(all))
	for i, r := range all {
		switch code := aws.ToString(r.Code); code {
		case "None", "":
		case "ConditionalCheckFailed":
			met = true
			lost[i] = told(r.Item)
		default:
			content = content || code == "ValidationError" || code == "ItemCollectionSizeLimitExceeded"
			codes = append(codes, code)
		}
	}
	if met {
		return lost, nil
	}
	return nil, &eventlog.Refused{Content: content, Cause: fmt.Errorf("the transaction was cancelled: %s", strings.Join(codes, ", "))}
}

func told(it item) item {
	if it == nil {
		return item{}
	}
	return it
}
