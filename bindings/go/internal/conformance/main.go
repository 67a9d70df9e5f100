// The Go side of bindings/conformance: `serve PORT`, or `run ADDRESS KIND KEY=VALUE...`.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"barewire.dev/go"
)

func check(holds bool, what string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "not so:", what)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	return value
}

func mustDo(err error) { must(0, err) }

func serve(port uint16) {
	ctx := context.Background()
	client := must(barewire.Attach("server", ""))
	mustDo(client.Listen(ctx, port))
	fmt.Println("ready")
	cancelled := 0
	for {
		event := must(client.Next(ctx))
		switch event.Kind {
		case barewire.Cancelled:
			cancelled++
		case barewire.Message:
			// A flow that ended meanwhile is the client's affair.
			_ = client.Send(ctx, event.Flow, event.Data)
		case barewire.Request:
			switch string(event.Data) {
			case "hold":
			case "fail":
				_ = client.Fail(ctx, event, 7, "as asked")
			case "cancelled?":
				_ = client.Respond(ctx, event, []byte(strconv.Itoa(cancelled)))
			default:
				_ = client.Respond(ctx, event, event.Data)
			}
		}
	}
}

func pattern(size, seed int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(i*31 + seed*7 + i>>8)
	}
	return out
}

func next(client *barewire.Client, kind barewire.Kind) barewire.Event {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		event := must(client.Next(ctx))
		if event.Kind == kind {
			return event
		}
		check(event.Kind != barewire.Closed, "no flow ends meanwhile")
	}
}

type scenario struct {
	address string
	given   map[string]string
}

func (s scenario) number(key string, otherwise int) int {
	if text, there := s.given[key]; there {
		return must(strconv.Atoi(text))
	}
	return otherwise
}

func (s scenario) connect(client *barewire.Client) barewire.Flow {
	return must(client.Connect(context.Background(), s.address, &barewire.Options{Unordered: s.number("ordered", 1) == 0}))
}

func (s scenario) echo(client *barewire.Client) {
	ordered := s.number("ordered", 1) != 0
	var flows []barewire.Flow
	for i := 0; i < s.number("flows", 1); i++ {
		flows = append(flows, s.connect(client))
	}
	for _, text := range strings.Split(s.given["sizes"], ",") {
		expected := map[barewire.Flow][][]byte{}
		for n := 0; n < s.number("count", 1); n++ {
			for _, flow := range flows {
				data := pattern(must(strconv.Atoi(text)), n+int(flow))
				mustDo(client.Send(context.Background(), flow, data))
				expected[flow] = append(expected[flow], data)
			}
		}
		for n := s.number("count", 1) * len(flows); n > 0; n-- {
			event := next(client, barewire.Message)
			waiting, found := expected[event.Flow], false
			for i := 0; i < len(waiting) && !found && (i == 0 || !ordered); i++ {
				if found = bytes.Equal(waiting[i], event.Data); found {
					expected[event.Flow] = append(waiting[:i:i], waiting[i+1:]...)
				}
			}
			check(found, "what comes back is what was sent, of "+text+" bytes")
		}
	}
}

// flat has its memory looked at from outside, at each of the two lines.
func (s scenario) flat(client *barewire.Client) {
	const window = 32
	flow, data, count := s.connect(client), pattern(s.number("size", 1), 0), s.number("count", 4)
	input := bufio.NewReader(os.Stdin)
	for sent, got := 0, 0; got < count; {
		for ; sent < count && sent < got+window; sent++ {
			mustDo(client.Send(context.Background(), flow, data))
		}
		check(len(next(client, barewire.Message).Data) == len(data), "echoes come")
		if got++; got == count/4 || got == count {
			fmt.Println("at", got)
			_, _ = input.ReadString('\n')
		}
	}
}

func (s scenario) deadlines(client *barewire.Client) {
	flow, ended := s.connect(client), make(chan error)
	end := time.Now().Add(time.Duration(s.number("timeout_ms", 1)) * time.Millisecond)
	within, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	count := s.number("count", 1)
	for n := 0; n < count; n++ {
		go func() {
			_, err := client.Call(within, flow, []byte("hold"))
			ended <- err
		}()
	}
	for n := 0; n < count; n++ {
		err := <-ended
		check(errors.Is(err, context.DeadlineExceeded), fmt.Sprint("the deadline, not ", err))
	}
}

func (s scenario) bothWays(client *barewire.Client) {
	flow, data, read := s.connect(client), pattern(s.number("size", 1), 0), make(chan bool)
	go func() {
		for n := 0; n < s.number("count", 1); n++ {
			check(bytes.Equal(next(client, barewire.Message).Data, data), "echoes come")
		}
		close(read)
	}()
	for n := 0; n < s.number("count", 1); n++ {
		mustDo(client.Send(context.Background(), flow, data))
	}
	<-read
}

func (s scenario) peerKilledSending(client *barewire.Client) {
	flow, data := s.connect(client), pattern(s.number("size", 1), 0)
	mustDo(client.Send(context.Background(), flow, []byte("x")))
	next(client, barewire.Message)
	fmt.Println("connected")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	// The peer stands still.
	for client.TrySend(flow, data) == nil {
	}
	fmt.Println("full")
	var err error
	for err == nil {
		err = client.Send(context.Background(), flow, data)
	}
	check(errors.Is(err, barewire.ErrNoFlow) || errors.Is(err, barewire.ErrClosing), fmt.Sprint("the flow has ended, not ", err))
}

func (s scenario) closeUnread(client *barewire.Client) {
	flow, data, ended := s.connect(client), pattern(s.number("size", 1), 0), make(chan error)
	for n := 0; n <= s.number("count", 1); n++ {
		mustDo(client.Send(context.Background(), flow, data))
	}
	next(client, barewire.Message)
	time.Sleep(100 * time.Millisecond)
	go func() {
		for {
			event, err := client.Next(context.Background())
			if err != nil {
				ended <- err
				return
			}
			check(event.Kind != barewire.Message || bytes.Equal(event.Data, data), "what was sent, or an error")
		}
	}()
	mustDo(client.Close())
	check(errors.Is(<-ended, barewire.ErrClosed), "the reader was ended")
	_, err := client.Next(context.Background())
	check(errors.Is(err, barewire.ErrClosed), fmt.Sprint("closed, not ", err))
}

func (s scenario) connectCancelled(client *barewire.Client) {
	start := time.Now()
	for n := 0; n < 10; n++ {
		mustDo(client.CloseFlow(s.connect(client)))
	}
	// Around the time at which the answer comes.
	usual := time.Since(start) / 10
	for n := 0; n < 4*s.number("count", 1); n++ {
		within, cancel := context.WithCancel(context.Background())
		after := time.AfterFunc(usual*time.Duration(n%50)/25, cancel)
		flow, err := client.Connect(within, s.address, nil)
		check(err == nil || errors.Is(err, context.Canceled), fmt.Sprint("connected, or given up, not ", err))
		if err == nil {
			mustDo(client.CloseFlow(flow))
		}
		after.Stop()
		cancel()
	}
	fmt.Println("cancelled")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	for n := 0; n < 20; n++ {
		within, cancel := context.WithCancel(context.Background())
		after := time.AfterFunc(time.Duration(n*3%100)*time.Microsecond, cancel)
		port := uint16(2000 + n)
		if client.Listen(within, port) != nil {
			// It is free again before long.
			other := must(barewire.Attach("other", ""))
			for try := 0; ; try++ {
				err := other.Listen(context.Background(), port)
				if err == nil {
					break
				}
				check(errors.Is(err, barewire.ErrPortTaken) && try < 500, fmt.Sprint("the port is free, not ", err))
				time.Sleep(10 * time.Millisecond)
			}
			mustDo(other.Close())
		}
		after.Stop()
		cancel()
	}
}

func run(address, kind string, given map[string]string) {
	s := scenario{address, given}
	ctx := context.Background()
	client := must(barewire.Attach("client", ""))
	switch kind {
	case "echo":
		s.echo(client)
	case "too_large":
		err := client.TrySend(s.connect(client), make([]byte, s.number("size", 0)))
		check(errors.Is(err, barewire.ErrTooLarge), "too large")
	case "refused":
		_, err := client.Connect(ctx, strings.Split(address, ":")[0]+":1", nil)
		check(errors.Is(err, barewire.ErrRefused), fmt.Sprint("refused, not ", err))
	case "wrong_key":
		_, err := client.Connect(ctx, address, nil)
		check(errors.Is(err, barewire.ErrSecurity), fmt.Sprint("keys that do not fit, not ", err))
	case "peer":
		flow := s.connect(client)
		peer := must(client.Peer(flow))
		name, secure := s.given["name"]
		check((peer != nil) == secure, "somebody, or nobody")
		if peer != nil {
			check(peer.Name == name && fmt.Sprintf("%x", peer.Key) == s.given["key"], "the one who is expected")
		}
		check(must(client.Peer(flow+1)) == nil, "nobody on no flow")
	case "requests":
		flow := s.connect(client)
		var all sync.WaitGroup
		for n := 0; n < s.number("count", 1); n++ {
			all.Add(1)
			go func(n int) {
				defer all.Done()
				within, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				data := pattern(s.number("size", 1), n)
				check(bytes.Equal(must(client.Call(within, flow, data)), data), "each answer is to its request")
			}(n)
		}
		all.Wait()
	case "deadline":
		within, cancel := context.WithTimeout(ctx, time.Duration(s.number("timeout_ms", 1))*time.Millisecond)
		defer cancel()
		_, err := client.Call(within, s.connect(client), []byte("hold"))
		check(errors.Is(err, context.DeadlineExceeded), fmt.Sprint("the deadline, not ", err))
	case "deadlines":
		s.deadlines(client)
	case "both_ways":
		s.bothWays(client)
	case "peer_killed_sending":
		s.peerKilledSending(client)
	case "close_unread":
		s.closeUnread(client)
	case "connect_cancelled":
		s.connectCancelled(client)
	case "failure":
		_, err := client.Call(ctx, s.connect(client), []byte("fail"))
		var failure *barewire.Failure
		check(errors.As(err, &failure) && failure.Code == 7 && failure.Text == "as asked", fmt.Sprint("its code and text, not ", err))
	case "cancellation":
		flow := s.connect(client)
		cancelled := func() int {
			return must(strconv.Atoi(string(must(client.Call(ctx, flow, []byte("cancelled?"))))))
		}
		before := cancelled()
		within, cancel := context.WithCancel(ctx)
		held := must(client.Start(within, flow, []byte("hold")))
		cancel()
		_, err := held.Wait()
		check(errors.Is(err, context.Canceled), "cancelled")
		check(cancelled() == before+1, "the server hears of it")
	case "pressure":
		flow, sent := s.connect(client), 0
		for ; ; sent++ {
			if err := client.TrySend(flow, pattern(s.number("size", 1), sent)); err != nil {
				check(errors.Is(err, barewire.ErrAgain), "a full channel says so")
				break
			}
		}
		check(sent > 0, "some were taken")
		for got := 0; got < sent; got++ {
			check(bytes.Equal(next(client, barewire.Message).Data, pattern(s.number("size", 1), got)), "echoes come in order")
		}
		// And there is room again.
		mustDo(client.Send(ctx, flow, []byte("x")))
		check(string(next(client, barewire.Message).Data) == "x", "room comes back")
	case "close_wait":
		flow := s.connect(client)
		for n := 0; n < s.number("count", 1); n++ {
			mustDo(client.Send(ctx, flow, pattern(s.number("size", 1), n)))
		}
		mustDo(client.CloseFlow(flow))
		check(next(client, barewire.Closed).Reason == barewire.ClosedLocal, "closed by this side, with everything acknowledged")
	case "use_after_close":
		flow := s.connect(client)
		mustDo(client.Close())
		check(errors.Is(client.TrySend(flow, []byte("x")), barewire.ErrClosed), "a send")
		_, err := client.Next(ctx)
		check(errors.Is(err, barewire.ErrClosed), "a wait")
		mustDo(client.Close())
	case "flat":
		s.flat(client)
	case "close_calling":
		flow, ended := s.connect(client), make(chan error)
		for n := 0; n < s.number("count", 1); n++ {
			held := must(client.Start(ctx, flow, []byte("hold")))
			go func() {
				_, err := held.Wait()
				ended <- err
			}()
		}
		mustDo(client.Close())
		for n := 0; n < s.number("count", 1); n++ {
			check(errors.Is(<-ended, barewire.ErrClosed), "the call was ended")
		}
		_, err := client.Call(ctx, flow, []byte("hold"))
		check(errors.Is(err, barewire.ErrClosed), "a call")
	case "close_waiting":
		ended := make(chan error)
		go func() {
			_, err := client.Next(ctx)
			ended <- err
		}()
		mustDo(client.Close())
		check(errors.Is(<-ended, barewire.ErrClosed), "the wait was ended")
	case "peer_killed":
		mustDo(client.Send(ctx, s.connect(client), []byte("x")))
		next(client, barewire.Message)
		fmt.Println("connected")
		check(next(client, barewire.Closed).Reason == barewire.ClosedReset, "reset by the peer's end")
	case "daemon_restarted":
		fmt.Println("connected")
		_, err := client.Next(ctx)
		check(errors.Is(err, barewire.ErrDaemonGone), "the daemon is gone")
		mustDo(client.Close())
		fmt.Println("gone")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		mustDo(must(barewire.Attach("again", "")).Listen(ctx, 999))
	default:
		fmt.Println("SKIPPED")
		return
	}
	fmt.Println("ok")
}

func main() {
	given := map[string]string{}
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		serve(uint16(must(strconv.Atoi(os.Args[2]))))
	case len(os.Args) >= 4 && os.Args[1] == "run":
		for _, pair := range os.Args[4:] {
			key, value, _ := strings.Cut(pair, "=")
			given[key] = value
		}
		run(os.Args[2], os.Args[3], given)
	default:
		check(false, "usage: serve PORT | run ADDRESS KIND KEY=VALUE...")
	}
}
