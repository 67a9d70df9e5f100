// Package barewire sends and receives messages through the barewire daemon.
//
//	client, err := barewire.Attach("hello", "")
//	flow, err := client.Connect(ctx, "10.0.0.2:888", nil)
//	answer, err := client.Call(ctx, flow, []byte("price of ES?"))
//
// A Client may be used by any number of goroutines. One of those that wait takes events for all of them, and sleeps where Go's
// sockets do, or for a short time in the kernel (Hold): no goroutine and no thread waits in C. Contexts end waits, and a deadline travels
// to the server.
//
// Needs libbarewire and barewire.h: CGO_CFLAGS=-I..., CGO_LDFLAGS=-L....
package barewire

/*
#cgo LDFLAGS: -lbarewire
#include <barewire.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Code is a BW_ERR_ number of the C library. It is an error, so that errors.Is finds it.
type Code int

// The codes that programs decide by.
const (
	ErrInvalid    Code = C.BW_ERR_INVALID
	ErrClosed     Code = C.BW_ERR_HANDLE
	ErrBusy       Code = C.BW_ERR_BUSY
	ErrAgain      Code = C.BW_ERR_AGAIN
	ErrTooLarge   Code = C.BW_ERR_TOO_LARGE
	ErrNoFlow     Code = C.BW_ERR_NO_FLOW
	ErrClosing    Code = C.BW_ERR_CLOSING
	ErrDaemonGone Code = C.BW_ERR_DAEMON_GONE
	ErrTimedOut   Code = C.BW_ERR_TIMED_OUT
	ErrNoDaemon   Code = C.BW_ERR_NO_DAEMON
	ErrPortTaken  Code = C.BW_ERR_PORT_TAKEN
	ErrRefused    Code = C.BW_ERR_REFUSED
	ErrTableFull  Code = C.BW_ERR_TABLE_FULL
	ErrNoAnswer   Code = C.BW_ERR_NO_ANSWER
	ErrUnreach    Code = C.BW_ERR_UNREACHABLE
	ErrTooMany    Code = C.BW_ERR_TOO_MANY
	ErrSecurity   Code = C.BW_ERR_SECURITY
)

func (c Code) Error() string { return C.GoString(C.bw_strerror(C.int(c))) }

// ErrFlowEnded says that the flow ended before the answer came. Whether the server acted is not known.
var ErrFlowEnded = errors.New("barewire: the flow ended before the answer came")

// ConnectError says why a flow did not open: a BW_CONNECT_ number.
type ConnectError struct{ Reason int }

func (e *ConnectError) Error() string {
	names := []string{"", "refused: nobody listens there", "no room for another flow", "the peer does not answer",
		"the next hop does not answer, or there is no route", "given up", "the peer takes encrypted flows only",
		"the peer does not trust this host's key", "the peer has another key than the trusted one", "the peer does not encrypt",
		"this host does not trust the peer's key", "this user may not connect there"}
	if e.Reason > 0 && e.Reason < len(names) {
		return "barewire: " + names[e.Reason]
	}
	return fmt.Sprintf("barewire: not connected, reason %d", e.Reason)
}

// Is lets errors.Is find the code of the same meaning.
func (e *ConnectError) Is(target error) bool {
	codes := map[int]Code{C.BW_CONNECT_REFUSED: ErrRefused, C.BW_CONNECT_TABLE_FULL: ErrTableFull,
		C.BW_CONNECT_TIMED_OUT: ErrNoAnswer, C.BW_CONNECT_UNREACHABLE: ErrUnreach}
	if e.Reason >= C.BW_CONNECT_SECURITY_REQUIRED && e.Reason <= C.BW_CONNECT_NOT_PERMITTED {
		return target == ErrSecurity
	}
	code, known := codes[e.Reason]
	return known && target == code
}

// Failure is a server's answer that it has no response.
type Failure struct {
	Code uint16
	Text string
}

func (f *Failure) Error() string {
	return fmt.Sprintf("barewire: the server failed, code %d: %s", f.Code, f.Text)
}

// Flow names a flow of a client.
type Flow uint64

// Kind says what an Event is.
type Kind uint32

// Kinds of events. Answers to calls and connections are no events here: who asked gets them.
const (
	Accepted  Kind = C.BW_EVENT_ACCEPTED
	Message   Kind = C.BW_EVENT_MESSAGE
	Closed    Kind = C.BW_EVENT_CLOSED
	Request   Kind = C.BW_EVENT_REQUEST
	Cancelled Kind = C.BW_EVENT_REQUEST_CANCELLED
)

// Reasons of a flow's end.
const (
	ClosedLocal = int(C.BW_CLOSED_LOCAL)
	ClosedPeer  = int(C.BW_CLOSED_PEER)
	ClosedReset = int(C.BW_CLOSED_RESET)
)

// Event is something that happened.
type Event struct {
	Kind   Kind
	Flow   Flow
	Reason int           // of Closed
	Number uint64        // of Request and Cancelled
	Data   []byte        // of Message and Request
	Left   time.Duration // of Request: until the caller's deadline; 0: none
}

type answer struct {
	flow Flow
	data []byte
	err  error
}

// Client is a channel to the daemon.
type Client struct {
	raw     *C.bw_client
	mu      sync.Mutex
	next    uint64
	asked   map[uint64]chan answer     // calls, by number
	early   map[uint64]answer          // answers that came before their call was entered
	opening map[uint64]chan answer     // connections, by token
	writers map[chan struct{}]struct{} // who waits for room
	err     error                      // why it ended
	done    chan struct{}
	queue   []C.bw_event
	ready   chan struct{}
	once    sync.Once
	leadership
}

// RequestsMax is how many calls of a client may wait for an answer at a time.
const RequestsMax = 4096

// what C said, on the thread that it said it on
func try(call func() C.int) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := call()
	if n >= 0 {
		return int(n), nil
	}
	return 0, fmt.Errorf("barewire: %s: %w", C.GoString(C.bw_last_error()), Code(n))
}

// Attach makes a client. An empty socket is the usual place (BAREWIRE_SOCKET, or where a daemon answers).
func Attach(name, socket string) (*Client, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var csocket *C.char
	if socket != "" {
		csocket = C.CString(socket)
		defer C.free(unsafe.Pointer(csocket))
	}
	c := &Client{asked: map[uint64]chan answer{}, early: map[uint64]answer{}, opening: map[uint64]chan answer{},
		writers: map[chan struct{}]struct{}{}, done: make(chan struct{}), ready: make(chan struct{}, 1)}
	if _, err := try(func() C.int { return C.bw_client_attach(cname, csocket, &c.raw) }); err != nil {
		return nil, err
	}
	_, err := try(func() C.int { return C.bw_requests(c.raw, RequestsMax) })
	if err == nil {
		err = c.prepare()
	}
	if err != nil {
		C.bw_client_free(c.raw)
		return nil, err
	}
	return c, nil
}

func (c *Client) signal() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// pop takes the next event that nobody has read.
func (c *Client) pop() (e C.bw_event, there bool) {
	c.mu.Lock()
	if there = len(c.queue) > 0; there {
		e = c.queue[0]
		c.queue = c.queue[1:]
	}
	more := len(c.queue) > 0
	c.mu.Unlock()
	if more {
		c.signal()
		// Another one that waits for it may take events meanwhile, and see none.
		if len(c.role) > 0 {
			c.wake()
		}
	}
	return e, there
}

// end ends waits. What it ended for first is told, until it is closed.
func (c *Client) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		close(c.done)
	}
	if c.err == nil || why == ErrClosed {
		c.err = why
	}
}

// answer hands an event to who waits for it. False: it is for Next.
func (c *Client) answer(e *C.bw_event) bool {
	token := uint64(e.token)
	c.mu.Lock()
	defer c.mu.Unlock()
	call := func(a answer) bool {
		if to, there := c.asked[token]; there {
			delete(c.asked, token)
			to <- a
		} else {
			c.early[token] = a
		}
		return true
	}
	switch e.kind {
	case C.BW_EVENT_RESPONSE:
		data, err := c.take(e)
		return call(answer{data: data, err: err})
	case C.BW_EVENT_FAILURE:
		text, err := c.take(e)
		if err == nil {
			err = &Failure{uint16(e.reason), string(text)}
		}
		return call(answer{err: err})
	case C.BW_EVENT_UNANSWERED:
		if e.reason == C.BW_UNANSWERED_DEADLINE {
			return call(answer{err: context.DeadlineExceeded})
		}
		return call(answer{err: ErrFlowEnded})
	case C.BW_EVENT_LISTENING, C.BW_EVENT_LISTEN_FAILED:
		if to, there := c.opening[token]; there {
			delete(c.opening, token)
			a := answer{}
			if e.kind == C.BW_EVENT_LISTEN_FAILED {
				a.err = ErrPortTaken
			}
			to <- a
		} else if e.kind == C.BW_EVENT_LISTENING {
			// Whoever asked for it has given it up.
			c.unbusy(func() C.int { return C.bw_unlisten(c.raw, e.local.port) })
		}
		return true
	case C.BW_EVENT_CONNECTED, C.BW_EVENT_CONNECT_FAILED:
		if to, there := c.opening[token]; there {
			delete(c.opening, token)
			a := answer{flow: Flow(e.flow)}
			if e.kind == C.BW_EVENT_CONNECT_FAILED {
				a.err = &ConnectError{int(e.reason)}
			}
			to <- a
		} else if e.kind == C.BW_EVENT_CONNECTED {
			c.unbusy(func() C.int { return C.bw_reset(c.raw, e.flow) })
		}
		return true
	case C.BW_EVENT_WRITABLE:
		for to := range c.writers {
			to <- struct{}{}
			delete(c.writers, to)
		}
		return true
	case C.BW_EVENT_ACCEPTED, C.BW_EVENT_MESSAGE, C.BW_EVENT_CLOSED, C.BW_EVENT_REQUEST, C.BW_EVENT_REQUEST_CANCELLED:
		return false
	}
	return true
}

// unbusy makes a call that another goroutine may be in the way of for a moment.
func (c *Client) unbusy(call func() C.int) C.int {
	for {
		n := call()
		if n != C.BW_ERR_BUSY {
			return n
		}
		runtime.Gosched()
	}
}

// take copies the bytes of an event's message and gives its memory back. A client that is closed meanwhile has no bytes any more.
func (c *Client) take(e *C.bw_event) ([]byte, error) {
	var head C.size_t
	if e.kind != C.BW_EVENT_MESSAGE {
		head = C.BW_REQUEST_HEAD
	}
	data := make([]byte, C.size_t(e.message.len)-head)
	read := c.unbusy(func() C.int {
		return C.bw_message_read_at(c.raw, &e.message, head, pointer(data), C.size_t(len(data)))
	})
	c.unbusy(func() C.int { return C.bw_message_release(c.raw, &e.message) })
	C.bw_flush(c.raw)
	c.nudge(never)
	if read < 0 {
		return nil, Code(read)
	}
	return data, nil
}

// Next waits for an event.
func (c *Client) Next(ctx context.Context) (Event, error) {
	for {
		if e, there := c.pop(); there {
			return c.read(&e)
		}
		if _, err := wait(ctx, c, c.ready); err != nil {
			return Event{}, err
		}
	}
}

func (c *Client) read(e *C.bw_event) (Event, error) {
	out := Event{Kind: Kind(e.kind), Flow: Flow(e.flow), Reason: int(e.reason), Number: uint64(e.token)}
	var err error
	switch out.Kind {
	case Message:
		out.Data, err = c.take(e)
	case Request:
		out.Data, err = c.take(e)
		out.Left, out.Reason = time.Duration(e.reason)*time.Microsecond, 0
	}
	if err != nil {
		return Event{}, err
	}
	return out, nil
}

func (c *Client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Listen asks for connections on a UDP port. A context that is cancelled gives the port back.
func (c *Client) Listen(ctx context.Context, udpPort uint16) error {
	_, err := c.open(ctx, func(token C.uint64_t) C.int { return C.bw_listen(c.raw, C.uint16_t(udpPort), token) },
		func(Flow) C.int { return C.bw_unlisten(c.raw, C.uint16_t(udpPort)) })
	return err
}

// open starts what the daemon answers by an event, and waits for that. undo takes back what comes of it when nobody waits any more.
func (c *Client) open(ctx context.Context, start func(token C.uint64_t) C.int, undo func(Flow) C.int) (Flow, error) {
	to := make(chan answer, 1)
	c.mu.Lock()
	c.next++
	token := c.next
	c.opening[token] = to
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		delete(c.opening, token)
		c.mu.Unlock()
	}
	if _, err := c.patiently(ctx, func() C.int { return start(C.uint64_t(token)) }); err != nil {
		forget()
		return 0, err
	}
	a, err := wait(ctx, c, to)
	if err == nil {
		return a.flow, a.err
	}
	if ctx.Err() == nil {
		return 0, err
	}
	// From here on an answer is undone by who takes it. One that was taken before is in the channel.
	forget()
	select {
	case a := <-to:
		if a.err == nil {
			c.unbusy(func() C.int { return undo(a.flow) })
		}
	default:
		c.unbusy(func() C.int { return C.bw_cancel(c.raw, C.uint64_t(token)) })
	}
	c.nudge(never)
	return 0, ctx.Err()
}

// Options say how to connect. nil: the default.
type Options struct {
	// Messages may arrive in another order than sent.
	Unordered bool
}

// Connect opens a flow to an address such as 10.0.0.2:888.
func (c *Client) Connect(ctx context.Context, remote string, options *Options) (Flow, error) {
	text := C.CString(remote)
	defer C.free(unsafe.Pointer(text))
	var addr C.bw_addr
	if _, err := try(func() C.int { return C.bw_addr_parse(text, 0, &addr) }); err != nil {
		return 0, err
	}
	var how C.bw_connect_options
	if options != nil && options.Unordered {
		how.unordered = 1
	}
	return c.open(ctx, func(token C.uint64_t) C.int { return C.bw_connect(c.raw, &addr, &how, token) },
		func(flow Flow) C.int { return C.bw_reset(c.raw, C.bw_flow(flow)) })
}

// patiently repeats a call while memory or ring is full.
func (c *Client) patiently(ctx context.Context, call func() C.int) (int, error) {
	var room chan struct{}
	for {
		n, err := try(call)
		c.nudge(never)
		if errors.Is(err, ErrBusy) {
			runtime.Gosched()
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			continue
		}
		if !errors.Is(err, ErrAgain) {
			return n, err
		}
		if room == nil {
			// Once more, when what makes room is seen.
			room = make(chan struct{}, 1)
			defer c.giveUp(room)
		} else if _, err := wait(ctx, c, room); err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.writers[room] = struct{}{}
		c.mu.Unlock()
	}
}

func (c *Client) giveUp(room chan struct{}) {
	c.mu.Lock()
	delete(c.writers, room)
	c.mu.Unlock()
}

func pointer(data []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) }

// Send queues a message, and waits for room while there is none.
func (c *Client) Send(ctx context.Context, flow Flow, data []byte) error {
	_, err := c.patiently(ctx, func() C.int { return C.bw_send(c.raw, C.bw_flow(flow), pointer(data), C.size_t(len(data))) })
	return err
}

// TrySend queues a message, or fails with ErrAgain while there is no room.
func (c *Client) TrySend(flow Flow, data []byte) error {
	send := func() C.int { return C.bw_send(c.raw, C.bw_flow(flow), pointer(data), C.size_t(len(data))) }
	_, err := try(send)
	c.nudge(never)
	if errors.Is(err, ErrAgain) {
		// Nobody may have taken the events that make room.
		c.drain()
		_, err = try(send)
		c.nudge(never)
	}
	return err
}

// Pending is a request that was sent.
type Pending struct {
	c   *Client
	ctx context.Context
	id  C.uint64_t
	to  chan answer
}

// Call sends a request and waits for its answer. The context's deadline goes to the server; a context that is cancelled tells it.
func (c *Client) Call(ctx context.Context, flow Flow, data []byte) ([]byte, error) {
	p, err := c.Start(ctx, flow, data)
	if err != nil {
		return nil, err
	}
	return p.Wait()
}

// Start sends a request. Wait for it: it holds one of RequestsMax.
func (c *Client) Start(ctx context.Context, flow Flow, data []byte) (*Pending, error) {
	var timeout C.uint64_t
	deadline, isSet := ctx.Deadline()
	if isSet {
		left := time.Until(deadline).Microseconds()
		if left <= 0 {
			return nil, context.DeadlineExceeded
		}
		timeout = C.uint64_t(left)
		c.timed.Store(true)
	}
	p := &Pending{c: c, ctx: ctx, to: make(chan answer, 1)}
	_, err := c.patiently(ctx, func() C.int {
		return C.bw_request(c.raw, C.bw_flow(flow), pointer(data), C.size_t(len(data)), timeout, &p.id)
	})
	if err != nil {
		return nil, err
	}
	if isSet {
		c.nudge(deadline.UnixNano())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, there := c.early[uint64(p.id)]; there {
		delete(c.early, uint64(p.id))
		p.to <- a
	} else {
		c.asked[uint64(p.id)] = p.to
	}
	return p, nil
}

// Wait waits for the answer, once. The context is that of Start.
func (p *Pending) Wait() ([]byte, error) {
	c := p.c
	a, err := wait(p.ctx, c, p.to)
	if err == nil {
		return a.data, a.err
	}
	if p.ctx.Err() == nil {
		return nil, err
	}
	for {
		n := C.bw_request_cancel(c.raw, p.id)
		c.nudge(never)
		if n == C.BW_ERR_BUSY {
			runtime.Gosched()
			continue
		}
		if n == 0 {
			// Its answer is an event already, and comes.
			if a, err = wait(context.Background(), c, p.to); err != nil {
				return nil, err
			}
			return a.data, a.err
		}
		c.mu.Lock()
		delete(c.asked, uint64(p.id))
		c.mu.Unlock()
		return nil, p.ctx.Err()
	}
}

// Respond answers a Request.
func (c *Client) Respond(ctx context.Context, to Event, data []byte) error {
	_, err := c.patiently(ctx, func() C.int {
		return C.bw_respond(c.raw, C.bw_flow(to.Flow), C.uint64_t(to.Number), pointer(data), C.size_t(len(data)))
	})
	return err
}

// Fail says that a Request has no response.
func (c *Client) Fail(ctx context.Context, to Event, code uint16, why string) error {
	text := C.CString(why)
	defer C.free(unsafe.Pointer(text))
	_, err := c.patiently(ctx, func() C.int {
		return C.bw_fail(c.raw, C.bw_flow(to.Flow), C.uint64_t(to.Number), C.uint16_t(code), text)
	})
	return err
}

// Identity is who is at the other end of an encrypted flow, as the peer has proven it.
type Identity struct {
	Name string // what the configuration calls it; "self": this host
	Key  [C.BW_KEY_LEN]byte
}

// Peer says who is at the other end of a flow; nil: it is not encrypted, or gone.
func (c *Client) Peer(flow Flow) (*Identity, error) {
	var raw C.bw_identity
	there, err := try(func() C.int {
		return c.unbusy(func() C.int { return C.bw_peer(c.raw, C.bw_flow(flow), &raw) })
	})
	if err != nil || there == 0 {
		return nil, err
	}
	who := &Identity{Name: C.GoString(&raw.name[0])}
	for i, b := range raw.key {
		who.Key[i] = byte(b)
	}
	return who, nil
}

// CloseFlow ends a flow after everything sent on it was acknowledged; a Closed event follows.
func (c *Client) CloseFlow(flow Flow) error {
	_, err := c.patiently(context.Background(), func() C.int { return C.bw_close(c.raw, C.bw_flow(flow)) })
	return err
}

// ResetFlow ends a flow at once: what was not acknowledged may be lost; a Closed event follows.
func (c *Client) ResetFlow(flow Flow) error {
	_, err := c.patiently(context.Background(), func() C.int { return C.bw_reset(c.raw, C.bw_flow(flow)) })
	return err
}

// Close ends the client: its flows are reset, waits end, and everything on it fails with ErrClosed.
func (c *Client) Close() error {
	c.once.Do(func() {
		c.stop()
		c.mu.Lock()
		// What nobody has read goes with the client.
		c.queue = nil
		c.mu.Unlock()
		c.unbusy(func() C.int { return C.bw_client_free(c.raw) })
	})
	return nil
}
