package rest

import "fmt"

// Every limit of the API, with its reason. What is not said to be ours comes from section 10.

const (
	// bodyBytesMax bounds a request's body, decoded too (section 1): ten messages of the largest size, each byte
	// written as an escape of six, and something around them.
	bodyBytesMax = 16 << 20
	// answerBytesMax bounds a list of messages or queues as encoded (section 5): Lambda cannot answer more than 6 MB, and
	// four of them take more than five in base64.
	answerBytesMax = 4 << 20
	// batchEntriesMax is also the most that one receive may ask for.
	batchEntriesMax = 10

	nameBytesMax     = 128 // of a queue, with its suffix (section 4.1)
	entryIDMax       = 128 // characters (section 4.5)
	groupMax         = 128 // characters of a group or deduplication id (section 4.5)
	attributeNameMax = 256 // characters (section 4.5)
	tagsMax          = 50  // of a queue (section 4.1)
	tagKeyMax        = 128 // characters
	tagValueMax      = 256 // characters

	idempotencyKeyMax = 255 // characters (section 8)

	// A page of queues and of messages (section 7); a larger limit is clamped.
	listDefault, listMax = 50, 1000
	peekDefault, peekMax = 10, 100
	// A page of move tasks, which are ours.
	movesDefault, movesMax = 50, 100
	// A page of depths, which are ours too: each is read for each shard.
	depthsDefault, depthsMax = 50, 100
	// A page of what happened to a message.
	historyDefault, historyMax = 100, 1000

	// depthMax is where a count of messages stops (section 4.4).
	depthMax = 10000

	// dedupSeconds is how long a FIFO queue remembers an id (section 9.4).
	dedupSeconds = 300

	// echoBytesMax bounds what an error repeats of the request: ours, so that messages stay readable.
	echoBytesMax = 128
)

// span is the range of a whole number. The field's name is part of it, because the message needs both.
type span struct {
	name      string
	low, high uint32
}

func (s span) String() string { return fmt.Sprintf("a whole number from %d to %d", s.low, s.high) }

// Ranges of sections 4.1, 4.3, 4.5, 4.6 and 4.8.
var (
	visibilitySpan = span{"visibility_timeout_seconds", 0, 43200}         // half a day
	retentionSpan  = span{"message_retention_seconds", 60, 1209600}       // a minute to fourteen days
	maxBytesSpan   = span{"max_message_bytes", 1024, 262144}              // 1 to 256 KiB
	delaySpan      = span{"delay_seconds", 0, 900}                        // a quarter of an hour
	waitSpan       = span{"receive_wait_time_seconds", 0, 20}             // clients give up after thirty
	keyReuseSpan   = span{"kms_data_key_reuse_period_seconds", 60, 86400} // a minute to a day
	receivesSpan   = span{"max_receive_count", 1, 1000}
	messagesSpan   = span{"max_messages", 1, batchEntriesMax}
	pollSpan       = span{"wait_time_seconds", 0, 20}
	rateSpan       = span{"rate_per_second", 1, 100_000}    // of a move task: beyond it there is none
	ageSpan        = span{"older_than_seconds", 1, 1209600} // as old as a message may become
)

// Defaults of a new queue (section 4.1).
const (
	visibilityDefault = 30
	retentionDefault  = 345600
	maxBytesDefault   = 262144
	keyReuseDefault   = 300
)
