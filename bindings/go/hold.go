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

// holdAtFirst is several round trips between neighbours.
const holdAtFirst = 100 * time.Microsecond

// holdAfter is how many waits in a row were short before one is held.
const holdAfter = 4

// holdMost ends a held sleep that was expected to be short and is not. It is what Go allows a goroutine that computes. It is not less,
// as a timer that ends before the kernel's next tick has the clock set anew for each sleep: in a virtual machine that takes longer than
// the whole round trip.
const holdMost = 10 * time.Millisecond

// vainShare bounds what such mistakes take: after one, no sleep is held for so many times as long. Less than vainLeast is none: machines
// stand still for so long.
const (
	vainShare = 10
	vainLeast = time.Millisecond
)

// holders counts who sleeps so, of all clients; leading, who waits, by its leader.
var holders, leading atomic.Int32

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
	ears    int      // the epoll that Go's poller watches
	elbow   *os.File // an eventfd: who wakes a held leader writes it
	isDeaf  bool
	short   int       // waits in a row that ended in time
	isHeld  bool      // the leader's wait was, so far
	resting time.Time // none is held before
	// How often in a row there was neither an event nor a sleep to be had.
	refusals int
	lines    [2]line // of the daemon, and of who wakes the leader
	nap      syscall.Timespec
	holds    atomic.Uint64 // for tests
}

// line is a pollfd.
type line struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// Hold says which waits keep one of GOMAXPROCS processors while they sleep, and so wake without Go's scheduler: those that are expected to
// be no longer than this, 100 us at first, as the ones before were, while no other goroutine waits on the client. 0: none; for programs
// whose other goroutines cannot wait, at the price of longer round trips.
//
// Goroutines that are ready run before each such sleep, and one processor is left to others. Where there is but one, no wait
// keeps it while a goroutine waits on another client, and goroutines that wait for the network or a timer may run some 10 ms late.
//
// A sleep that turns out longer gives its processor away after 10 ms, or this time if that is more, and none is held for ten times as
// long. Until then a context that is cancelled is seen when Go's monitor interrupts the goroutine, as it does any that computes. With
// GODEBUG=asyncpreemptoff=1 it interrupts nobody: such a context is seen at the end of that time, and garbage collections wait for it.
func (c *Client) Hold(atMost time.Duration) { c.holdFor.Store(int64(sane(atMost))) }

// listenTo makes what Go's poller watches in place of the library's descriptor: one that can be told not to listen, as each ring would
// wake the thread in Go's poller, too.
func (c *Client) listenTo(fd int) (*os.File, error) {
	ears, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	heard := syscall.EpollEvent{Events: syscall.EPOLLIN}
	if err = syscall.EpollCtl(ears, syscall.EPOLL_CTL_ADD, fd, &heard); err == nil {
		err = syscall.SetNonblock(ears, true)
	}
	if err != nil {
		_ = syscall.Close(ears)
		return nil, err
	}
	// One that may block, as Go's poller would watch others; it does not, when it is read only after it was told of.
	elbow, _, failed := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if failed != 0 {
		_ = syscall.Close(ears)
		return nil, failed
	}
	c.ears, c.elbow = ears, os.NewFile(elbow, "barewire")
	c.lines = [2]line{{fd: int32(fd), events: pollIn}, {fd: int32(elbow), events: pollIn}}
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
	_ = syscall.EpollCtl(c.ears, syscall.EPOLL_CTL_MOD, int(c.lines[0].fd), &heard)
	c.isDeaf = !isWanted
}

// came notes how long an event was waited for; `began` is zero when it was there.
func (c *Client) came(began time.Time, limit time.Duration) {
	c.refusals = 0
	if limit == 0 || began.IsZero() {
		return
	}
	waited := time.Since(began)
	switch {
	case c.isHeld:
		c.held(waited, limit, false)
	case waited <= 2*limit:
		// In Go's poller the same wait takes longer.
		c.short = min(c.short+1, holdAfter)
	default:
		c.short = 0
	}
}

// gone notes how long was waited for an event in vain.
func (c *Client) gone(began time.Time, limit time.Duration) {
	if c.short = 0; c.isHeld {
		c.held(time.Since(began), limit, false)
	}
}

// held notes how long a held wait was, so far; `isOver`: no event came in all its time.
func (c *Client) held(waited, limit time.Duration, isOver bool) {
	c.isHeld = false
	if waited > 2*limit {
		c.short = 0
	}
	if isOver || waited > limit+vainLeast {
		c.resting = time.Now().Add(vainShare * waited)
	}
}

// hold sleeps until the daemon rings, somebody wakes it, a signal comes or the time is over, and keeps its processor. False: this wait is
// none for that.
func (c *Client) hold(until time.Time) bool {
	if c.short < holdAfter {
		return false
	}
	// Whom the last event was for, most likely.
	runtime.Gosched()
	now, processors := time.Now(), runtime.GOMAXPROCS(0)
	if c.waiters.Load() > 0 || now.Before(c.resting) || processors == 1 && leading.Load() > 1 {
		return false
	}
	defer holders.Add(-1)
	if int(holders.Add(1)) > max(1, processors-1) {
		return false
	}
	c.isHeld = true
	c.hear(false)
	c.until.Store(until.UnixNano())
	c.asleep.Store(inHold)
	defer c.asleep.Store(awake)
	if !c.arm() {
		// An event, most likely. Else the ring of requests is full.
		c.refusals++
		return c.refusals < 2
	}
	c.refusals = 0
	atMost := until.Sub(now)
	if c.timed.Load() {
		ms := c.unbusy(func() C.int { return C.bw_sleep_max_ms(c.raw) })
		atMost = min(atMost, time.Duration(ms)*time.Millisecond)
	}
	if atMost <= 0 || c.woken.Load() {
		return true
	}
	c.holds.Add(1)
	c.nap = syscall.NsecToTimespec(int64(atMost))
	c.lines[1].revents = 0
	// Not `Syscall`, which would tell the runtime. The loop of who calls looks at everything, whatever it says.
	_, _, failed := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&c.lines)), uintptr(len(c.lines)),
		uintptr(unsafe.Pointer(&c.nap)), 0, 0, 0)
	if failed != 0 && failed != syscall.EINTR {
		// A sandbox, most likely. Go's poller can do without.
		c.holdFor.Store(0)
		return false
	}
	if c.lines[1].revents != 0 {
		var told [8]byte
		_, _ = syscall.Read(int(c.lines[1].fd), told[:])
	}
	return true
}

// push ends a held sleep.
func (c *Client) push() {
	// Any number but none, in either order of bytes.
	_, _ = c.elbow.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
}
