package barewire

/*
#include <barewire.h>
*/
import "C"

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// holdAtFirst is several round trips between neighbours, and little beside the 10 ms after which Go takes a processor from a goroutine
// that computes.
const holdAtFirst = 100 * time.Microsecond

// holdAfter is how many waits in a row were short before one is held.
const holdAfter = 4

// holders counts who sleeps so, of all clients.
var holders atomic.Int32

// holding is the leader's: how short sleeps keep their processor, which is Go's word (P) for the right to run one of GOMAXPROCS
// goroutines.
//
// A sleep in Go's poller gives it away. That is right for long sleeps; but for one that lasts as long as a message takes to go there and
// back, the runtime wakes two threads of its own: one that looks for other work, and its monitor, which had gone to sleep as nobody ran.
// Where cores are few, these take them from the daemon that the wait is for. So a wait that is expected to be short, as those before it
// were, sleeps in the kernel without telling the runtime. To that the goroutine seems to compute; a garbage collection interrupts it by a
// signal, as it does those that do. With several goroutines waiting on a client, the leader gives its processor to whom it hands a message.
type holding struct {
	holdFor atomic.Int64
	ears    int // the epoll that Go's poller watches
	isDeaf  bool
	short   int // waits in a row that ended in time
	line    struct {
		fd              int32
		events, revents int16
	}
	nap   syscall.Timespec
	holds atomic.Uint64 // for tests
}

// Hold says how long at most a goroutine that waits keeps one of GOMAXPROCS processors while it sleeps, 100 us at first: it then wakes
// without Go's scheduler. It does so while its waits end within that time and no other goroutine waits on the client, and one processor is
// always left to others. Where other goroutines need them all, 0 gives it away at once, at the price of longer round trips.
//
// While it is held, Close, a context that ends and what else ends a wait are seen when Go's monitor interrupts the goroutine, after some
// 10 ms as it does any that computes; with GODEBUG=asyncpreemptoff=1 only at the end of that time.
func (c *Client) Hold(atMost time.Duration) { c.holdFor.Store(int64(max(0, atMost))) }

// listenTo makes what Go's poller watches in place of the library's descriptor: one that can be told not to listen, as each ring would
// wake the thread in Go's poller, too.
func (c *Client) listenTo(fd int) (*os.File, error) {
	ears, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	c.ears, c.line.fd, c.line.events = ears, int32(fd), 1 // POLLIN
	heard := syscall.EpollEvent{Events: syscall.EPOLLIN}
	if err = syscall.EpollCtl(ears, syscall.EPOLL_CTL_ADD, fd, &heard); err == nil {
		err = syscall.SetNonblock(ears, true)
	}
	if err != nil {
		_ = syscall.Close(ears)
		return nil, err
	}
	return os.NewFile(uintptr(ears), "barewire"), nil
}

// hear says whether Go's poller is to be told of rings. One that has rung is told of at once.
func (c *Client) hear(isWanted bool) {
	if isWanted != c.isDeaf {
		return
	}
	var heard syscall.EpollEvent
	if isWanted {
		heard.Events = syscall.EPOLLIN
	}
	// It fails for want of memory only when something is added.
	_ = syscall.EpollCtl(c.ears, syscall.EPOLL_CTL_MOD, int(c.line.fd), &heard)
	c.isDeaf = !isWanted
}

// came notes how long an event was waited for; `began` is zero when it was there.
func (c *Client) came(began time.Time, spinFor, holdFor time.Duration) {
	if holdFor == 0 || began.IsZero() {
		return
	}
	if time.Since(began) > spinFor+holdFor {
		c.short = 0
	} else if c.short < holdAfter {
		c.short++
	}
}

// hold sleeps until the daemon rings, a signal comes or the time is over, and keeps its processor. False: this wait is none for that.
func (c *Client) hold(atMost time.Duration) bool {
	if c.short < holdAfter || c.waiters.Load() > 0 {
		return false
	}
	defer holders.Add(-1)
	if int(holders.Add(1)) >= runtime.GOMAXPROCS(0) {
		return false
	}
	c.hear(false)
	if !c.arm() {
		// An event, most likely. Else who calls comes back here, until the time is over.
		return true
	}
	if c.timed.Load() && c.unbusy(func() C.int { return C.bw_sleep_max_ms(c.raw) }) == 0 {
		return true
	}
	c.holds.Add(1)
	c.nap = syscall.NsecToTimespec(int64(atMost))
	// Not `Syscall`, which would tell the runtime. Whatever it says, the loop of who calls looks at everything.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&c.line)), 1, uintptr(unsafe.Pointer(&c.nap)), 0, 0, 0)
	return true
}
