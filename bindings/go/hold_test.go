package barewire

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// long enough for a round trip on a machine that has much else to do
const patience = 30 * time.Second

// pair is a client and a server that echoes, each with an engine in this process, over Unix sockets.
func pair(t *testing.T) (*Client, Flow) {
	t.Helper()
	runtime.GOMAXPROCS(4)
	links := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	attach := func(host int) *Client {
		place := fmt.Sprintf("embedded:10.9.0.%d/24@unix:%s,%s", host, links[host-1], links[2-host])
		c, err := Attach("test", place)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	server, client := attach(2), attach(1)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stop)
	if err := server.Listen(ctx, 888); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			e, err := server.Next(context.Background())
			if err != nil {
				return
			}
			if e.Kind == Message && server.Send(context.Background(), e.Flow, e.Data) != nil {
				return
			}
		}
	}()
	flow, err := client.Connect(ctx, "10.9.0.2:888", nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, flow
}

func roundTrip(t *testing.T, c *Client, flow Flow) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.Send(ctx, flow, []byte("there and back")); err != nil {
		t.Fatal(err)
	}
	e, err := c.Next(ctx)
	if err != nil || string(e.Data) != "there and back" {
		t.Fatal(e, err)
	}
}

// untilHeld makes round trips until a wait was held.
func untilHeld(t *testing.T, c *Client, flow Flow) {
	t.Helper()
	for n := 0; c.holds.Load() == 0; n++ {
		if n == 1000 {
			t.Fatal("no wait of 1000 was held")
		}
		roundTrip(t, c, flow)
	}
}

func TestShortWaitsAreHeld(t *testing.T) {
	c, flow := pair(t)
	c.Hold(50 * time.Millisecond)
	untilHeld(t, c, flow)
	for n := 0; n < 1000; n++ {
		roundTrip(t, c, flow)
	}
}

func TestNoneIsHeldWhenNoneIsToBe(t *testing.T) {
	c, flow := pair(t)
	c.Hold(0)
	for n := 0; n < 50; n++ {
		roundTrip(t, c, flow)
	}
	c.Hold(50 * time.Millisecond)
	// The last processor is everybody's.
	runtime.GOMAXPROCS(1)
	for n := 0; n < 50; n++ {
		roundTrip(t, c, flow)
	}
	if held := c.holds.Load(); held != 0 {
		t.Fatal(held, "waits were held")
	}
}

// After the time that a wait is held for it is one as any other: it ends with its context, and with a message that comes then.
func TestALongWaitIsAsAnyOther(t *testing.T) {
	c, flow := pair(t)
	c.Hold(50 * time.Millisecond)
	untilHeld(t, c, flow)
	before := c.holds.Load()
	ctx, stop := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer stop()
	if e, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(e, err)
	}
	if c.holds.Load() == before {
		t.Fatal("it was not held at first")
	}
	go func() {
		time.Sleep(200 * time.Millisecond)
		if c.Send(context.Background(), flow, []byte("late")) != nil {
			t.Error("not sent")
		}
	}()
	late, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if e, err := c.Next(late); err != nil || string(e.Data) != "late" {
		t.Fatal(e, err)
	}
	// The first short waits after a long one are not held; then they are again.
	if c.short >= holdAfter {
		t.Fatal("a wait of 200 ms was short")
	}
	before = c.holds.Load()
	for n := 0; c.holds.Load() == before; n++ {
		if n == 1000 {
			t.Fatal("none was held after a long one")
		}
		roundTrip(t, c, flow)
	}
}

func TestOthersRunMeanwhile(t *testing.T) {
	c, flow := pair(t)
	runtime.GOMAXPROCS(2)
	c.Hold(time.Second)
	untilHeld(t, c, flow)
	var ran atomic.Uint64
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			default:
				ran.Add(1)
				runtime.Gosched()
			}
		}
	}()
	ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	_, _ = c.Next(ctx)
	// A collection stops who holds, too.
	go runtime.GC()
	_, _ = c.Next(ctx)
	close(over)
	if n := ran.Load(); n < 100 {
		t.Fatal(n, "turns while another goroutine slept")
	}
}

func TestCloseEndsWhoHolds(t *testing.T) {
	c, flow := pair(t)
	c.Hold(200 * time.Millisecond)
	untilHeld(t, c, flow)
	before := c.holds.Load()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Next(context.Background())
		failed <- err
	}()
	for c.holds.Load() == before {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Go's monitor interrupts who holds as it does whoever computes for 10 ms, and then the wait sees what has ended it.
func TestAHeldWaitEndsWithItsContext(t *testing.T) {
	c, flow := pair(t)
	c.Hold(5 * time.Second)
	untilHeld(t, c, flow)
	for n := 0; n < 3; n++ {
		for c.short < holdAfter {
			roundTrip(t, c, flow)
		}
		before := c.holds.Load()
		ctx, stop := context.WithCancel(context.Background())
		began := time.Now()
		time.AfterFunc(10*time.Millisecond, stop)
		if e, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(e, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatal("it took", took)
		}
		if c.holds.Load() == before {
			t.Fatal("it was not held")
		}
	}
}
