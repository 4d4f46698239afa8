package host

import (
	"os"
	"runtime"
	"sync"
)

// spareProcessors stand in for those that wait for the disk. Go's scheduler notices only after 20 µs to 10 ms that a
// thread is held by the kernel and gives its processor to another one; a server that syncs every batch has a thread in
// fdatasync nearly all the time, and on two cores that is half of what it could run on. On machines with many cores
// two more change nothing.
const spareProcessors = 2

// addProcessors lets more threads run at a time than there are cores. It does so once in a process, however many servers
// run in it.
var addProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0))) })

// processors is how many there should be where Go has taken so many, unless the environment says it.
func processors(have int) int {
	if os.Getenv("GOMAXPROCS") != "" {
		return have
	}
	return have + spareProcessors
}
