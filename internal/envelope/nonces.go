package envelope

import (
	"fmt"
	"io"
	"sync"
)

const (
	nonceSize = 12
	tagSize   = 16
	// nonceStock is how many nonces are drawn at once. A system call per seal would cost as much as the seal; a large
	// stock would only use memory, since every queue in use has one.
	nonceStock = 42
)

// nonces hands out random nonces in the order in which they were drawn, so that a seeded source repeats itself.
type nonces struct {
	rand  io.Reader
	mu    sync.Mutex
	stock [nonceStock * nonceSize]byte
	left  int // bytes at the end of stock that nobody has had
}

// next fills nonce, which is nonceSize long.
func (n *nonces) next(nonce []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == 0 {
		if _, err := io.ReadFull(n.rand, n.stock[:]); err != nil {
			return fmt.Errorf("drawing nonces: %w", err)
		}
		n.left = len(n.stock)
	}
	n.left -= copy(nonce, n.stock[len(n.stock)-n.left:])
	return nil
}
