package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var receiveMessages = &operation{name: "receive-messages", method: http.MethodPost, path: messagesPath + "/receive", action: auth.ReceiveMessages,
	run: (*call).receiveMessages}

// receiveInput is section 4.6.
type receiveInput struct {
	messages, visibility, wait *uint32
	problem                    error
}

var receiveObject = object[receiveInput]{fields: map[string]func(*scan, *receiveInput) error{
	"max_messages": func(s *scan, in *receiveInput) error {
		return s.whole(messagesSpan, &in.messages, &in.problem)
	},
	"visibility_timeout_seconds": func(s *scan, in *receiveInput) error {
		return s.whole(visibilitySpan, &in.visibility, &in.problem)
	},
	"wait_time_seconds": func(s *scan, in *receiveInput) error { return s.whole(pollSpan, &in.wait, &in.problem) },
}}

func (c *call) receiveMessages() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	in := &c.receive
	if !empty(body) { // no body means no arguments
		if err := one(&c.scan, body, in, &receiveObject); err != nil {
			return err
		}
	}
	if in.problem != nil {
		return in.problem
	}
	most := 1
	if in.messages != nil {
		most = int(*in.messages)
	}
	ctx := c.once()
	if in.wait == nil && c.queue.Settings.WaitSeconds > 0 || in.wait != nil && *in.wait > 0 {
		var end func()
		ctx, end = api.Attended(ctx)
		defer end()
	}
	got, err := c.h.Broker.Receive(ctx, broker.Receive{
		Queue: c.queue.ID, Max: most, LeaseSeconds: in.visibility, WaitSeconds: in.wait,
		BytesMax: answerBytesMax, Encoded: deliveryBytes,
	})
	if err != nil {
		return err
	}
	c.deliveries(got)
	c.json(http.StatusOK)
	return nil
}

func deliveryBytes(d *broker.Delivery) int { return messageBytes(d.Message, batchEntriesMax) }

// deliveries writes the answer; the array is there when it is empty too (section 11.4).
func (c *call) deliveries(all []broker.Delivery) {
	b := append(c.out, `{"messages":[`...)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = delivery(b, &all[i])
	}
	c.out = append(b, `]}`...)
}

// delivery appends a ReceivedMessage (section 4.6).
func delivery(b []byte, d *broker.Delivery) []byte {
	b = uuid(append(b, '{'), "id", d.ID)
	b = text(append(b, ','), "receipt_handle", d.Receipt)
	b = quoteBody(append(b, `,"body":`...), d.Message.Body)
	b = attributes(b, d.Message.Attributes)
	b = number(append(b, ','), "receive_count", uint64(d.Receives))
	if d.Message.Group != "" {
		b = text(append(b, ','), "message_group_id", d.Message.Group)
	}
	b = instant(append(b, ','), "enqueued_at", d.Enqueued)
	b = instant(append(b, ','), "visible_at", d.Visible)
	return append(b, '}')
}
