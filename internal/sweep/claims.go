package sweep

import (
	"context"
	"time"

	"github.com/leaselog/leaselog/internal/broker"
)

// WorkClaims counts claims that were removed.
const WorkClaims broker.Work = "claims"

// Claims is a store whose claims stay after they have lapsed until they are removed.
type Claims interface {
	// Lapsed removes the claims that nobody can need any more, by the Until that was read, and says how many there were.
	// A dry one only counts.
	Lapsed(ctx context.Context, dry bool) (int, error)
}

// Lapsed removes claims that lapsed: nonces of signed requests, idempotency keys, what was done once. In DynamoDB they go
// by themselves.
var Lapsed = Chore{Name: prefix + "claims", Does: "removes lapsed claims, such as nonces and idempotency keys", Embedded: 10 * time.Minute,
	whole: func(ctx context.Context, r *run) error {
		if r.site.Claims == nil {
			return nil
		}
		n, err := r.site.Claims.Lapsed(ctx, r.sweep.Dry)
		r.sweep.Did(WorkClaims, uint64(n))
		return err
	}}
