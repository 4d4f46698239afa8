package keys

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/leaselog/leaselog/internal/fault"
)

// kind is what an error of KMS means to whoever asked.
type kind struct {
	code fault.Code
	text string // after "the key X"
}

// kinds are the errors of KMS, by their codes (https://docs.aws.amazon.com/kms/latest/APIReference/API_Decrypt.html,
// API_GenerateDataKey.html, API_DescribeKey.html, CommonErrors.html). Those that KMS says may be repeated, and all with
// a status from 500 on, were repeated by the time they are judged.
var kinds = map[string]kind{
	"NotFoundException":          {fault.Invalid, "does not exist in this region; name one by its id, ARN or alias"},
	"InvalidArnException":        {fault.Invalid, "has an ARN that KMS cannot read"},
	"InvalidAliasNameException":  {fault.Invalid, "has an alias that KMS cannot read"},
	"ValidationException":        {fault.Invalid, "is named in a way that KMS cannot read; name it by its id, ARN or alias"},
	"InvalidKeyUsageException":   {fault.Invalid, "cannot wrap data keys; it must be symmetric, for ENCRYPT_DECRYPT"},
	"DisabledException":          {fault.KeyLost, "is disabled; enable it, and the queue works again"},
	"KMSInvalidStateException":   {fault.KeyLost, "is in a state in which it cannot be used"},
	"AccessDeniedException":      {fault.KeyLost, "may not be used by this service; allow its role kms:GenerateDataKey, kms:Decrypt and kms:DescribeKey in the key's policy"},
	"IncorrectKeyException":      {fault.KeyLost, "is not the one that the data key was wrapped under"},
	"InvalidCiphertextException": {fault.KeyLost, "does not open the data key: that was wrapped for another queue, version or deployment, or was changed"},
	"InvalidGrantTokenException": {fault.KeyLost, "is granted by a token that is not valid"},
	"ThrottlingException":        {fault.Unavailable, tooMuch},
	"Throttling":                 {fault.Unavailable, tooMuch},
	"RequestLimitExceeded":       {fault.Unavailable, tooMuch},
	"LimitExceededException":     {fault.Unavailable, tooMuch},
	"KeyUnavailableException":    {fault.Unavailable, notNow},
	"DependencyTimeoutException": {fault.Unavailable, notNow},
	"KMSInternalException":       {fault.Unavailable, notNow},
	"InternalFailure":            {fault.Unavailable, notNow},
	"ServiceUnavailable":         {fault.Unavailable, notNow},
}

const (
	tooMuch = "cannot be used now: KMS has too much to do; nothing was done, try again"
	notNow  = "cannot be used now: KMS does not answer as it should; nothing was done, try again"
)

// judge makes a fault of an error of KMS. The SDK's errors name request ids and codes and hold no keys.
func judge(err error, ref, doing string) error {
	cause := fmt.Errorf("%s: %w", doing, err)
	is := kindOf(err)
	if ref == "" && is.code == fault.Invalid { // not the caller's choice
		is.code = fault.KeyLost
	}
	return fault.Because(is.code, cause, "%s %s", called(ref), is.text)
}

func kindOf(err error) kind {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok { // KMS was not reached, or time ran out
		if errors.Is(err, context.Canceled) {
			return kind{fault.Unavailable, "was not used: the request was given up; nothing was done"}
		}
		return kind{fault.Unavailable, "cannot be used now: KMS cannot be reached; nothing was done, try again"}
	}
	is, known := kinds[api.ErrorCode()]
	switch {
	case known && api.ErrorCode() == "KMSInvalidStateException" && strings.Contains(api.ErrorMessage(), "pending deletion"):
		is.text = "is about to be deleted; cancel its deletion and enable it, and the queue works again"
	case !known && status(err) >= http.StatusInternalServerError:
		is = kind{fault.Unavailable, notNow}
	case !known:
		is = kind{fault.KeyLost, "cannot be used: KMS answers " + api.ErrorCode()}
	}
	return is
}

func status(err error) int {
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}

// called names a key as the caller does; what the platform's is called is nobody's business.
func called(ref string) string {
	if ref == "" {
		return "the platform's key"
	}
	return fmt.Sprintf("the key %q", ref)
}
