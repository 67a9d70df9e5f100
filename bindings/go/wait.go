package barewire

/*
#include <barewire.h>
#include <sched.h>
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// keepAfter is how long nobody has waited when the keeper takes events.
const keepAfter = 10 * time.Millisecond

// ringCheck is how often a full ring of requests is looked at: nothing rings when it empties.
const ringCheck = time.Millisecond

// Where the leader sleeps.
const (
	awake = iota
	inPoller
	inHold
)

// never is later than any deadline.
const never = math.MaxInt64

// leadership says who takes events. Of the goroutines that wait, the one that has the role does, for all: it takes what there is,
// hands answers to who asked, and sleeps until the daemon rings (where: holding). When it has what it waited for, another one of them
// gets the role. So a message reaches who waits for it without another goroutine or thread between. While nobody waits, the keeper
// has the role: what comes late for who has given up is undone, and the end of the daemon is seen.
type leadership struct {
	role        chan struct{} // full: somebody has it
	bell        *os.File      // what Go's poller watches: an epoll of the event's descriptor
	bellConn    syscall.RawConn
	sleep       func(uintptr) bool
	taken       C.bw_event // the leader's, as are the next two
	isArmed     bool
	mayNotSleep bool
	asleep      atomic.Int32 // the leader is, or is about to be: awake, inPoller, inHold
	woken       atomic.Bool  // it is not to
	until       atomic.Int64 // when its sleep ends at the latest, in ns of the wall; never: not said yet, or for ever
	timed       atomic.Bool  // requests with deadlines were made
	stopping    atomic.Bool
	waiters     atomic.Int32
	leads       atomic.Uint64
	keeper      *time.Timer
	keeping     atomic.Bool
	ticking     atomic.Bool
	seen        uint64 // the keeper's: leads at its last look
	spinFor     atomic.Int64
	holding
}

func (c *Client) prepare() error {
	fd, err := try(func() C.int { return C.bw_event_fd(c.raw) })
	if err != nil {
		return err
	}
	if c.bell, err = c.listenTo(fd); err != nil {
		return fmt.Errorf("barewire: %w", err)
	}
	if c.bellConn, err = c.bell.SyscallConn(); err == nil {
		err = c.bell.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = c.bell.Close()
		_ = c.elbow.Close()
		return fmt.Errorf("barewire: %w", err)
	}
	c.Hold(holdAtFirst)
	c.role = make(chan struct{}, 1)
	c.sleep = c.doze
	c.ticking.Store(true)
	c.keeper = time.AfterFunc(time.Hour, c.keep)
	c.keeper.Reset(keepAfter)
	return nil
}

// Spin says how long who waits looks again and again before it sleeps, letting other goroutines and programs run between its looks.
// 0, as at first: not at all. For cores with time to spare.
func (c *Client) Spin(before time.Duration) { c.spinFor.Store(int64(sane(before))) }

// sane is between 0 and an hour.
func sane(wanted time.Duration) time.Duration { return min(max(0, wanted), time.Hour) }

// wait waits for what comes on a channel with room for it, taking events for others meanwhile if nobody else does.
func wait[T any](ctx context.Context, c *Client, to chan T) (got T, err error) {
	here := func() bool { return len(to) > 0 }
	select {
	case c.role <- struct{}{}:
		c.lead(ctx, here)
	default:
	}
	for {
		select {
		case got = <-to:
			return got, nil
		default:
		}
		c.waiters.Add(1)
		if c.keeping.Load() {
			c.wake()
		}
		select {
		case got = <-to:
			c.waiters.Add(-1)
			return got, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.done:
			err = c.ended()
		case c.role <- struct{}{}:
		}
		c.waiters.Add(-1)
		if err == nil {
			c.lead(ctx, here)
			continue
		}
		// What came before the end comes first.
		select {
		case got = <-to:
			return got, nil
		default:
			return got, err
		}
	}
}

// lead takes events until the caller has what it waits for, or need not wait any more, and gives the role up.
func (c *Client) lead(ctx context.Context, over func() bool) {
	leading.Add(1)
	c.takeUntil(ctx, time.Duration(c.spinFor.Load()), time.Duration(c.holdFor.Load()), over)
	leading.Add(-1)
	c.leads.Add(1)
	<-c.role
	if !c.ticking.Load() && !c.ticking.Swap(true) {
		c.keeper.Reset(keepAfter)
	}
}

// keep is the keeper's look, on a goroutine of its own, while its clock is set: by who gives the role up.
func (c *Client) keep() {
	if c.ended() != nil {
		return
	}
	if now := c.leads.Load(); now != c.seen {
		c.seen = now
		c.keeper.Reset(keepAfter)
		return
	}
	select {
	case c.role <- struct{}{}:
		c.keeping.Store(true)
		c.takeUntil(context.Background(), 0, 0, func() bool { return c.waiters.Load() > 0 })
		c.keeping.Store(false)
		<-c.role
		c.keeper.Reset(keepAfter)
	default:
		// Who has the role sets the clock, if that was not just now.
		c.ticking.Store(false)
		if len(c.role) == 0 && !c.ticking.Swap(true) {
			c.keeper.Reset(keepAfter)
		}
	}
}

// takeUntil takes events, with the role, until there is no need to.
func (c *Client) takeUntil(ctx context.Context, spinFor, holdFor time.Duration, over func() bool) {
	isHooked, barren := ctx.Done() == nil, 0
	var began time.Time // of this wait: the first look in vain
	limit := spinFor + holdFor
	deadline, isLimited := ctx.Deadline()
	for {
		// Whatever somebody woke it for is looked at below.
		c.woken.Store(false)
		if c.stopping.Load() {
			return
		}
		got := c.unbusy(func() C.int { return C.bw_next_event(c.raw, &c.taken) })
		if got == 1 {
			c.came(began, limit)
			barren, began = 0, time.Time{}
			if !c.answer(&c.taken) {
				c.mu.Lock()
				c.queue = append(c.queue, c.taken)
				c.mu.Unlock()
				c.signal()
			}
			if over() {
				return
			}
			continue
		}
		if got < 0 {
			c.end(Code(got))
			return
		}
		if over() || ctx.Err() != nil {
			if !began.IsZero() {
				c.gone(began, limit)
			}
			return
		}
		if limit > 0 {
			now := time.Now()
			if began.IsZero() {
				began = now
			}
			waited := now.Sub(began)
			if waited < spinFor {
				runtime.Gosched()
				C.sched_yield()
				continue
			}
			until := began.Add(spinFor + max(holdFor, holdMost))
			if isLimited && deadline.Before(until) {
				until = deadline
			}
			if isOver := !now.Before(until); holdFor > 0 && !isOver && c.hold(until) {
				continue
			} else if c.isHeld {
				c.held(waited, limit, isOver)
			}
		}
		if !isHooked {
			isHooked = true
			unhook := context.AfterFunc(ctx, c.wake)
			defer unhook()
		}
		if c.park() {
			barren = 0
		} else if barren++; barren > 1 {
			// The ring of requests is full.
			time.Sleep(ringCheck)
		}
	}
}

// park sleeps until the daemon rings, a deadline comes, or somebody wakes it. False: there was no sleep to be had.
func (c *Client) park() bool {
	c.isArmed, c.mayNotSleep = false, false
	c.hear(true)
	c.until.Store(never)
	c.asleep.Store(inPoller)
	err := c.bellConn.Read(c.sleep)
	c.asleep.Store(awake)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.bell.SetReadDeadline(time.Time{})
	}
	return !c.mayNotSleep
}

// arm asks the daemon to ring. False: there is no sleep to be had.
func (c *Client) arm() bool {
	// The poller tells of a change, and may have told of the daemon's end before this sleep: the look is here. It also takes away
	// what was rung for the last one.
	c.unbusy(func() C.int { return C.bw_disarm(c.raw) })
	return c.unbusy(func() C.int { return C.bw_arm(c.raw) }) == 1
}

// doze is what the poller asks: whether there is something already, before its sleep, and after each ring. What rings between the
// question and the sleep is not lost, and neither is who wakes it, as deadlines are set here before that is looked at.
func (c *Client) doze(uintptr) bool {
	if c.isArmed {
		return true
	}
	if !c.arm() {
		c.mayNotSleep = true
		return true
	}
	c.isArmed = true
	if c.timed.Load() {
		ms := c.unbusy(func() C.int { return C.bw_sleep_max_ms(c.raw) })
		if ms == 0 {
			return true
		}
		if ms < math.MaxInt32 {
			at := time.Now().Add(time.Duration(ms) * time.Millisecond)
			_ = c.bell.SetReadDeadline(at)
			c.until.Store(at.UnixNano())
		}
	}
	return c.woken.Load()
}

// wake ends the leader's sleep, or its next one. Why is to be seen before.
func (c *Client) wake() {
	c.woken.Store(true)
	if c.asleep.Load() == inHold {
		c.push()
		return
	}
	_ = c.bell.SetReadDeadline(time.Unix(1, 0))
}

// nudge comes after a call that the leader did not make: its sleep ends when the call has left an event, or taken away what would
// have ended it, or made a request whose deadline is earlier than the sleep's.
func (c *Client) nudge(deadline int64) {
	if c.asleep.Load() == awake {
		return
	}
	if deadline < c.until.Load() || c.unbusy(func() C.int { return C.bw_sleep_max_ms(c.raw) }) == 0 {
		c.wake()
	}
}

// drain takes the events that are there, if nobody else does.
func (c *Client) drain() {
	select {
	case c.role <- struct{}{}:
		gone, stop := context.WithCancel(context.Background())
		stop()
		c.lead(gone, func() bool { return false })
	default:
	}
}

// stop ends the leader and takes the role for good.
func (c *Client) stop() {
	c.stopping.Store(true)
	c.end(ErrClosed)
	c.wake()
	c.role <- struct{}{}
	c.keeper.Stop()
	_ = c.bell.Close()
	_ = c.elbow.Close()
}
