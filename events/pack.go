package events

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packMin is the size below which packing is not tried: the smallest unit that any store counts in is larger still.
const packMin = 512

// unpackedMax bounds what is unpacked: a block is never larger.
const unpackedMax = 64 << 20

// zstdMagic begins a frame of zstd (RFC 8878). The messages of a block are an array of CBOR, which never begins so.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

var packer = sync.OnceValue(func() *zstd.Encoder {
	// Text whose parts do not repeat still has letters of less than a byte each.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are written here
	}
	return e
})

var unpacker = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(unpackedMax))
	if err != nil {
		panic(err)
	}
	return d
})

// Pack compresses what [EncodeMessages] gave, where that makes it smaller. [DecodeMessages] reads both.
func Pack(messages []byte) []byte {
	if len(messages) < packMin {
		return messages
	}
	if packed := packer().EncodeAll(messages, make([]byte, 0, len(messages))); len(packed) < len(messages) {
		return packed
	}
	return messages
}

func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, zstdMagic) {
		return data, nil
	}
	plain, err := unpacker().DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("packed: %w", err)
	}
	return plain, nil
}
