package barewire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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
	dir := t.TempDir()
	server := attach(t, dir, 2)
	listen(t, server)
	go func() { _ = echo(server) }()
	return connect(t, attach(t, dir, 1))
}

// attach is a host of two whose link is in a folder.
func attach(t *testing.T, dir string, host int) *Client {
	t.Helper()
	links := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	c, err := Attach("test", fmt.Sprintf("embedded:10.9.0.%d/24@unix:%s,%s", host, links[host-1], links[2-host]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func listen(t *testing.T, server *Client) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := server.Listen(ctx, 888); err != nil {
		t.Fatal(err)
	}
}

func echo(server *Client) error {
	for {
		e, err := server.Next(context.Background())
		if err == nil && e.Kind == Message {
			err = server.Send(context.Background(), e.Flow, e.Data)
		}
		if err != nil {
			return err
		}
	}
}

func connect(t *testing.T, client *Client) (*Client, Flow) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	flow, err := client.Connect(ctx, "10.9.0.2:888", nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, flow
}

// self is another process of a test of this program, which hears by childFolder that it is one, and where.
func self(t *testing.T, test string, env ...string) (child *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	// Its own end, should nobody end it.
	child = exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=2m")
	child.Env = append(append(os.Environ(), env...), childFolder+"="+dir)
	child.Stderr = os.Stderr
	return child, dir
}

const childFolder = "BAREWIRE_TEST_FOLDER"

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

// heldInNext is where a goroutine says what its Next came to, whose wait is held. There is room for another one's word.
func heldInNext(t *testing.T, c *Client, flow Flow) chan error {
	t.Helper()
	untilHeld(t, c, flow)
	before := c.holds.Load()
	failed := make(chan error, 2)
	go func() {
		_, err := c.Next(context.Background())
		failed <- err
	}()
	for c.holds.Load() == before {
		time.Sleep(time.Millisecond)
	}
	return failed
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
	if held := c.holds.Load(); held != 0 {
		t.Fatal(held, "waits were held")
	}
	c.Hold(holdAtFirst)
	// The only processor is for the server, too. It may be interrupted before it waits: then, and only then, one is held.
	runtime.GOMAXPROCS(1)
	trips := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); trips++ {
		roundTrip(t, c, flow)
	}
	if held := c.holds.Load(); held > 4 && int(held)*20 > trips {
		t.Fatal(held, "waits were held of", trips, "that wait for another client of this program")
	}
}

// On the only processor other goroutines have their turn meanwhile, whether they are ready, sleep, or wait for the network.
func TestTheOnlyProcessorIsSharedWithOthers(t *testing.T) {
	if dir := os.Getenv(childFolder); dir != "" {
		server := attach(t, dir, 2)
		listen(t, server)
		fmt.Println("ready")
		_ = echo(server)
		return
	}
	child, dir := self(t, t.Name())
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	for said := bufio.NewScanner(out); ; {
		if !said.Scan() {
			t.Fatal("the server did not start")
		}
		if said.Text() == "ready" {
			break
		}
	}
	c, flow := connect(t, attach(t, dir, 1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c.Hold(5 * time.Millisecond)
	untilHeld(t, c, flow)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	var ticks, turns, reads atomic.Int64
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for _, err := there.Read(make([]byte, 1)); err == nil; _, err = there.Read(make([]byte, 1)) {
			turns.Add(1)
		}
	}()
	go func() {
		for _, err := here.Write([]byte{1}); err == nil; _, err = here.Write([]byte{1}) {
			time.Sleep(time.Millisecond)
			ticks.Add(1)
		}
	}()
	go func() {
		conn, err := net.Dial("unix", socket.Addr().String())
		if err != nil {
			return
		}
		defer conn.Close()
		for err == nil && !over.Load() {
			if _, err = conn.Write([]byte{1}); err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			reads.Add(1)
		}
	}()
	go func() {
		if conn, err := socket.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
		}
	}()
	enough := func() bool { return ticks.Load() > 10 && turns.Load() > 10 && reads.Load() > 10 }
	before := c.holds.Load()
	for end := time.Now().Add(patience); !enough() || c.holds.Load() < before+200; roundTrip(t, c, flow) {
		if time.Now().After(end) {
			t.Fatal(ticks.Load(), turns.Load(), reads.Load(), "turns of others in", c.holds.Load()-before, "held waits")
		}
	}
}

// A wait that was expected to be short and is not: others are held no more for a while.
func TestAfterOneInVainNoneIsHeldForAWhile(t *testing.T) {
	c, flow := pair(t)
	c.Hold(5 * time.Millisecond)
	untilHeld(t, c, flow)
	var began time.Time
	for n, held := 0, uint64(0); held == 0; n++ {
		if n == 100 {
			t.Fatal("none of 100 was held")
		}
		for c.short < holdAfter || time.Now().Before(c.resting) {
			roundTrip(t, c, flow)
		}
		began = time.Now()
		before := c.holds.Load()
		ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if e, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(e, err)
		}
		stop()
		held = c.holds.Load() - before
	}
	if rest := c.resting.Sub(began); rest < vainShare*holdMost {
		t.Fatal("the next one may be held after", rest)
	}
	for before, rest := c.holds.Load(), c.resting; ; roundTrip(t, c, flow) {
		// What was held after the rest says nothing.
		if held := c.holds.Load() - before; time.Now().After(rest) {
			return
		} else if held != 0 {
			t.Fatal(held, "waits were held")
		}
	}
}

// However long Hold allows, a sleep in vain is one.
func TestALongHoldInVainIsOne(t *testing.T) {
	c, flow := pair(t)
	c.Hold(20 * time.Millisecond)
	untilHeld(t, c, flow)
	for n := 0; ; n++ {
		if n == 100 {
			t.Fatal("none of 100 held sleeps was in vain")
		}
		for c.short < holdAfter || time.Now().Before(c.resting) {
			roundTrip(t, c, flow)
		}
		ctx, stop := context.WithTimeout(context.Background(), 200*time.Millisecond)
		before, began := c.holds.Load(), time.Now()
		_, _ = c.Next(ctx)
		stop()
		if c.holds.Load() == before {
			continue
		}
		if rest := c.resting.Sub(began); rest < vainShare*20*time.Millisecond {
			t.Fatal("the next one may be held after", rest)
		}
		return
	}
}

// After the time that a wait is held for it is one as any other: it ends with its context, and with a message that comes then.
func TestALongWaitIsAsAnyOther(t *testing.T) {
	c, flow := pair(t)
	c.Hold(50 * time.Millisecond)
	untilHeld(t, c, flow)
	for c.short < holdAfter || time.Now().Before(c.resting) {
		roundTrip(t, c, flow)
	}
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
	// The first short waits after a long one are not held; then they are again, unless a held one was in vain.
	if c.short >= holdAfter {
		t.Fatal("a wait of 200 ms was short")
	}
	// Nor are any for a while after one in vain.
	time.Sleep(time.Until(c.resting))
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
	failed := heldInNext(t, c, flow)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Without the help of Go's monitor.
func TestCloseEndsWhoHoldsAtOnce(t *testing.T) {
	if os.Getenv(childFolder) == "" {
		child, _ := self(t, t.Name(), "GODEBUG=asyncpreemptoff=1")
		if said, err := child.Output(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return
	}
	c, flow := pair(t)
	c.Hold(5 * time.Minute)
	failed := heldInNext(t, c, flow)
	go func() { failed <- c.Close() }()
	for n := 0; n < 2; n++ {
		select {
		case err := <-failed:
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("it still sleeps")
		}
	}
}

// Events that are there go to all that wait, whoever takes them.
func TestNobodySleepsBesideAnEvent(t *testing.T) {
	c, flow := pair(t)
	const readers, each = 4, 200
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	read := make(chan error, readers)
	for n := 0; n < readers; n++ {
		go func() {
			for {
				_, err := c.Next(ctx)
				if read <- err; err != nil {
					return
				}
			}
		}()
	}
	// One burst at a time: what is not read of it is not read by help of the next one.
	for n := 0; n < each; n++ {
		for n := 0; n < readers; n++ {
			if err := c.Send(ctx, flow, []byte("to somebody")); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; n < readers; n++ {
			if err := <-read; err != nil {
				t.Fatal(err)
			}
		}
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
