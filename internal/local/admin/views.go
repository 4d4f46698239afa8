package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// Views is what views are shown from, and made again.
type Views struct {
	Log         eventlog.Log
	Store       projections.Store
	Projections []projections.Projection // whose views are kept there
	Now         func() events.Instant
}

// Depth is the depth view of a shard, as it is at the instant when it is asked for.
type Depth struct {
	Queue     string `json:"queue_id"`
	Shard     int    `json:"shard"`
	Available int64  `json:"available"`
	InFlight  int64  `json:"in_flight"`
	Delayed   int64  `json:"delayed"`
	Waiting   int64  `json:"oldest_waiting_milliseconds"`
	Total     int64  `json:"oldest_total_milliseconds"`
	Ledger    uint64 `json:"ledger"`
	Messages  uint64 `json:"messages"`
	Log       string `json:"log_time"` // of the last entry that is in it
}

// Rebuilt says how many views were made, of how many entries.
type Rebuilt struct {
	Views   int `json:"views"`
	Entries int `json:"entries"`
}

func (v Views) serve(m *http.ServeMux) {
	on(m, "GET /views", func(r *http.Request, _ none) (any, error) {
		return v.show(r.Context(), r.FormValue("account"), r.FormValue("queue"))
	})
	on(m, "POST /views/{queue}/{shard}", func(r *http.Request, _ none) (any, error) {
		return v.rebuild(r.Context(), r.PathValue("queue"), r.PathValue("shard"))
	})
}

// show gives the depth views of a queue, by its name or id, or of all.
func (v Views) show(ctx context.Context, account, queue string) (all []Depth, err error) {
	found := queue == ""
	id, byID := events.ParseUUID(queue)
	err = sweep.Queues(ctx, v.Log, func(q broker.Registered) error {
		if queue != "" && (q.Account != account || q.Name != queue && (!byID || q.ID != events.QueueID(id))) {
			return nil
		}
		found = true
		for i := range q.Shards {
			d, err := v.depth(ctx, projections.Shard{Queue: q.ID, Index: i})
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		return nil
	})
	if err == nil && !found {
		err = fault.New(fault.NotFound, "there is no queue %q in account %s", queue, account)
	}
	return all, err
}

func (v Views) depth(ctx context.Context, name projections.Shard) (d Depth, err error) {
	d = Depth{Queue: name.Queue.String(), Shard: name.Index, Log: "nothing"}
	k, ok, err := v.Store.Load(ctx, name.Key(projections.Depth.View))
	if err != nil || !ok {
		return d, err
	}
	r, high, err := projections.ReadKeptDepth(k.Data, v.Now())
	if err != nil {
		return d, err
	}
	d.Available, d.InFlight, d.Delayed, d.Waiting, d.Total = r.Available, r.InFlight, r.Delayed, r.WaitingMillis, r.TotalMillis
	d.Ledger, d.Messages, d.Log = r.Ends[0].Ledger, uint64(r.Ends[0].Messages), time.UnixMilli(int64(high)).UTC().Format(time.RFC3339Nano)
	return d, nil
}

func (v Views) rebuild(ctx context.Context, queue, shard string) (done Rebuilt, err error) {
	id, known := events.ParseUUID(queue)
	index, errIndex := strconv.Atoi(shard)
	if !known || errIndex != nil {
		return done, fault.New(fault.Invalid, "there is no shard %s of queue %s", shard, queue)
	}
	f := &views.Follower{Log: v.Log, Store: v.Store}
	for _, p := range v.Projections {
		if err := f.Rebuild(ctx, projections.Shard{Queue: id, Index: index}, p, func(n int) { done.Entries += n }); err != nil {
			return done, err
		}
		done.Views++
	}
	return done, nil
}

// Views gives the depth view of each shard of a queue, by its name or id, or of all queues.
func (c *Client) Views(ctx context.Context, account, queue string) (all []Depth, err error) {
	err = c.do(ctx, "GET", "/views?account="+url.QueryEscape(account)+"&queue="+url.QueryEscape(queue), nil, &all)
	return all, err
}

// RebuildViews makes the views of a shard again from the log. It takes as long as reading the shard does.
func (c *Client) RebuildViews(ctx context.Context, of Depth) (done Rebuilt, err error) {
	err = c.patient(ctx, "POST", "/views/"+of.Queue+"/"+strconv.Itoa(of.Shard), nil, &done)
	return done, err
}
