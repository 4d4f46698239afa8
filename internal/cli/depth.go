package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/leaselog/leaselog/internal/client"
)

// depths gives the depths of all queues: as the server's views have them, or, exact, counted one by one in their state.
func depths(ctx context.Context, c *client.Client, exact bool) (all []*client.WholeDepth, err error) {
	for d, err := range c.Depths(ctx) {
		if err != nil {
			return nil, err
		}
		if exact && d.Source != "state" {
			id := d.QueueID
			if d, err = c.Depth(ctx, id); err != nil {
				return nil, fmt.Errorf("the depth of queue %s: %w", id, err)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

func depthRow(d *client.WholeDepth) []string {
	waiting, total := "-", "-"
	if d.OldestWaiting != nil && d.OldestTotal != nil {
		waiting, total = ago(*d.OldestWaiting), ago(*d.OldestTotal)
	}
	return []string{d.QueueName, fmt.Sprint(d.Available), fmt.Sprint(d.InFlight), fmt.Sprint(d.Delayed), waiting, total, when(d.AsOf), d.Source}
}

// ago shows an age to the second.
func ago(millis int64) string { return duration(int(millis / 1000)) }

// showDepth adds to a queue's table what is known of its messages beyond the counts of the API.
func showDepth(t *table, d *client.WholeDepth) {
	t.row("messages", fmt.Sprintf("%d available, %d in flight, %d delayed", d.Available, d.InFlight, d.Delayed))
	if d.OldestWaiting != nil && d.OldestTotal != nil {
		t.row("oldest", "waits "+ago(*d.OldestWaiting)+", sent "+ago(*d.OldestTotal)+" ago")
	}
	for i, p := range d.Shards {
		t.row("as of", fmt.Sprintf("%s, shard %d: ledger %d, messages %d", p.AsOf.UTC().Format(time.RFC3339Nano), i, p.Ledger, p.Messages))
	}
}
