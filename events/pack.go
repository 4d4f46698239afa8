package events

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"
)

const (
	// packed is the first byte of what is packed: an array of CBOR, which the messages of a block are, never begins so.
	packed = 0
	// packMin is the size below which packing is not tried: the smallest unit that any store counts in is larger still.
	packMin = 512
	// unpackedMax bounds what is unpacked: a block is never larger.
	unpackedMax = 64 << 20
)

// packers are reused, since each has more than half a megabyte of tables.
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // there is such a level
	}
	return w
}}

// Pack compresses what [EncodeMessages] gave, where that makes it smaller. [DecodeMessages] reads both.
func Pack(messages []byte) []byte {
	if len(messages) < packMin {
		return messages
	}
	var out bytes.Buffer
	out.Grow(len(messages))
	out.WriteByte(packed)
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&out)
	if _, err := w.Write(messages); err != nil {
		panic(err) // a buffer takes everything
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if out.Len() < len(messages) {
		return out.Bytes()
	}
	return messages
}

// unpack gives what was packed, and anything else as it is.
func unpack(data []byte) ([]byte, error) {
	if len(data) == 0 || data[0] != packed {
		return data, nil
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[1:])), unpackedMax+1))
	if err == nil && len(plain) > unpackedMax {
		err = fmt.Errorf("it has more than %d bytes", unpackedMax)
	}
	if err != nil {
		return nil, fmt.Errorf("packed: %w", err)
	}
	return plain, nil
}
