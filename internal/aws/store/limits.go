package store

import "time"

// DynamoDB's own limits, from "Quotas" in its developer guide.
const (
	itemBytesMax = 400 << 10
	// ItemsMax is how many appends and claims one commit may have together: a transaction takes no more items.
	ItemsMax            = 100
	transactionBytesMax = 4 << 20
)

const (
	// inlineBytesMax bounds header and data of an entry that is one item, with room for its other attributes. The
	// header of a larger one must fit into it, too.
	inlineBytesMax = 390_000
	// chunkBytesMax is the size of the items that larger bytes are cut into.
	chunkBytesMax = 390_000
	// dataBytesMax bounds the data of one entry, which is held in memory whole. A send has at most 10 messages of
	// 256 KB.
	dataBytesMax = 16 << 20
	// snapshotBytesMax bounds one snapshot: a shard with 120,000 messages in flight takes a fifth of it.
	snapshotBytesMax = 64 << 20
)

const (
	// writeTimeout is how long a write may take before its outcome counts as unknown.
	writeTimeout = 5 * time.Second
	// readTimeout bounds a read with its repeats.
	readTimeout     = 10 * time.Second
	readAttempts    = 4
	readBackoffMost = time.Second
	// queryItemsMax bounds one page of a query, which DynamoDB ends at 1 MB anyway.
	queryItemsMax = 1_000
	// gapReads is how often a gap is read again before it is believed: a query is no snapshot, so that it may pass a
	// place before an entry is written there and see the next one, which was written after it.
	gapReads = 2
	// dropWorkers bounds the updates at once of a drop.
	dropWorkers = 8
)

const (
	// entryAge is how long an entry is kept: a day more than the longest retention of a message.
	entryAge = 15 * 24 * time.Hour
	// chunkMore is how long chunks outlive what names them.
	chunkMore = 24 * time.Hour
	// truncatedAge is the age of an entry from which on a gap before it is explained by expiry. An entry that expires is
	// at most two days older than the next one, since a sweep anchors a stream where none was added for a day.
	truncatedAge = entryAge - 3*24*time.Hour
	// claimMore is how long a claim that lapsed is kept, so that its version goes on rising.
	claimMore = 24 * time.Hour
	// snapshotAge is how long a snapshot is kept after a newer one came.
	snapshotAge = 16 * 24 * time.Hour
	// dropMore is how long a dropped entry still takes its place, invisible. Whoever knows the end of a stream from
	// before the drop, at most endAge ago, thus meets it and does not write there.
	dropMore = time.Hour

	// endAge is how long the known end of a stream may be written at without another look.
	endAge = 15 * time.Minute
	// endsMax bounds the streams whose end is known.
	endsMax = 20_000
	// instantsApart is how far a commit's instant may be from the clock: it is what its entries expire by. A commit
	// whose outcome is unknown is repeated for 10 minutes.
	instantsApart = time.Hour
)

const (
	// clockOffMax is how far the clock of this process may be from DynamoDB's, which is told in whole seconds: one
	// second must do, five must not.
	clockOffMax = 3 * time.Second
	// clockSpread is the longest exchange that tells that a clock is right.
	clockSpread = time.Second
	// clockAge is how long a comparison holds.
	clockAge = 15 * time.Minute
	// clockAgain is the time between two looks while the clock is wrong.
	clockAgain = time.Second
	// clockTries is how often DynamoDB is asked before its answers count as too slow to tell.
	clockTries = 3
)
