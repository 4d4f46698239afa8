package broker

import "time"

const (
	// shardsMax bounds a queue's shards: each is a goroutine and a state.
	shardsMax = 1024

	// groupMessagesMax and groupBytesMax bound a group commit, because a receive of one message opens its whole
	// block. One larger request stands alone.
	groupMessagesMax = 1_000
	groupBytesMax    = 256 << 10
	// groupItemsMax bounds the messages that the events of one ledger entry name.
	groupItemsMax = 4_000
	// appendsMost and claimsMost are what a group appends, and what one command of it claims, at most.
	appendsMost = 2
	claimsMost  = 2
	// inboxMax bounds the commands that wait for one shard; more are refused.
	inboxMax = 20_000
	// spareMax is how long an emptied inbox may be that is kept to be filled again.
	spareMax = 1_024

	// nearBlocksMax and nearBytesMax bound the blocks that a shard keeps ready at its cursor.
	nearBlocksMax = 64
	nearBytesMax  = 1 << 20

	// moveMessagesMax and moveBytesMax bound one commit of a move between shards, which two runners wait for.
	moveMessagesMax = 100
	moveBytesMax    = 256 << 10

	// moveLooksMax bounds the messages that a move task looks at for one commit, where the rules allow as many.
	moveLooksMax = 500

	// rememberSettled is how long a repeated ack is recognized, in milliseconds (Basaltic 9.1).
	rememberSettled = 5 * 60 * 1000
	// settledMax bounds the acks that a shard remembers without looking into its ledger.
	settledMax = 8_192
	// rememberDeleted is how long the deletion of a deleted queue succeeds again, in milliseconds (Basaltic 9.10).
	rememberDeleted = 5 * 60 * 1000

	// unknownPatience is how long a commit without an answer holds up its callers before they are told so.
	unknownPatience = 2 * time.Second
	// unknownGiveUp is how long such a commit is repeated: after it no write of it can still be under way.
	unknownGiveUp = 10 * time.Minute
	// sweepPause is the time between two looks for what is half done, in milliseconds, while a write may still land.
	sweepPause = 10_000
	// sweptShardsMax is how many shards a process has loaded before sweeps leave open no further ones that nobody uses.
	sweptShardsMax = 1_000
	// idleAge is how long nothing is written to a stream before it is anchored, in milliseconds, and snapshotAge the age
	// of the oldest entry that is in no snapshot before one is made.
	idleAge     = 24 * 60 * 60 * 1000
	snapshotAge = 24 * 60 * 60 * 1000
	// tailAge is how old a tail may be, in milliseconds, before it is read again where others write too: by then
	// its stream may have lost entries.
	tailAge = 15 * 60 * 1000

	// raceAttempts is from which lost race on the pauses grow no more: they are 32 to 160 ms then. Longer ones would
	// make losers wait for seconds while others come and win.
	raceAttempts = 7

	// answerMargin is what a long poll leaves of its caller's time, in milliseconds, to be answered in.
	answerMargin = 1_000

	// aheadBytesMax bounds one read of what others have written. An entry of the ledger, and the header of a block, has
	// at most an eighth of it, a block of the largest messages less than three quarters.
	aheadBytesMax = 4 << 20

	// probeFirst doubled six times is the pause between two looks at the end of a stream that other processes write
	// to, in milliseconds: 10 to 320.
	probeFirst = 5

	// snapshotFloor is how many bytes of a ledger are folded again at a start without a thought.
	snapshotFloor = 1 << 20
	// senderSnapshotFloor is the same for a message stream, where an entry holds the messages too.
	senderSnapshotFloor = 64 << 20
)
