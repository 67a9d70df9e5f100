// Requests and responses, timed: through the barewire daemon, or over an ordinary blocking TCP connection.
//
//	bench serve barewire 888 SIZE
//	bench run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE
//
// `tcp` instead of `barewire` has a port of 0 for any. A server says `ready PORT`, and ends after its client. A client leaves each
// round trip in FILE, as ns in 32 bits, and says `measured` and the ns that they took. BENCH_SPIN in the environment, such as 20us, is how
// long both look before they sleep; BENCH_HOLD, how long they keep their processor in a sleep: 0 or 100us.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"barewire.dev/go"
)

type link interface {
	send(data []byte) error
	receive() ([]byte, error)
}

type messages struct {
	client *barewire.Client
	flow   barewire.Flow
}

func (m *messages) send(data []byte) error {
	return m.client.Send(context.Background(), m.flow, data)
}

func (m *messages) receive() ([]byte, error) {
	for {
		event, err := m.client.Next(context.Background())
		if err != nil {
			return nil, err
		}
		switch event.Kind {
		case barewire.Message:
			return event.Data, nil
		case barewire.Closed:
			return nil, io.EOF
		}
	}
}

// tcp has a length of four bytes, and so many bytes.
type tcp struct {
	conn    net.Conn
	in, out []byte
}

func newTCP(conn net.Conn, size int) *tcp {
	t := &tcp{conn: conn, in: make([]byte, size+4), out: make([]byte, size+4)}
	binary.LittleEndian.PutUint32(t.out, uint32(size))
	return t
}

func (t *tcp) send(data []byte) error {
	copy(t.out[4:], data)
	_, err := t.conn.Write(t.out)
	return err
}

func (t *tcp) receive() ([]byte, error) {
	if _, err := io.ReadFull(t.conn, t.in); err != nil {
		return nil, err
	}
	if !bytes.Equal(t.in[:4], t.out[:4]) {
		return nil, errors.New("a message of another length")
	}
	return t.in[4:], nil
}

func serveTCP(port, size int) error {
	listener, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	fmt.Println("ready", listener.Addr().(*net.TCPAddr).Port)
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	for l := newTCP(conn, size); ; {
		data, err := l.receive()
		if err != nil {
			return err
		}
		if err := l.send(data); err != nil {
			return err
		}
	}
}

func attach(name string) (*barewire.Client, error) {
	client, err := barewire.Attach(name, "")
	if err != nil {
		return nil, err
	}
	for variable, set := range map[string]func(time.Duration){"BENCH_SPIN": client.Spin, "BENCH_HOLD": client.Hold} {
		text, isThere := os.LookupEnv(variable)
		if !isThere {
			continue
		}
		long, err := time.ParseDuration(text)
		if err != nil {
			_ = client.Close()
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		set(long)
	}
	return client, nil
}

func serve(port int) error {
	client, err := attach("bench server")
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.Listen(ctx, uint16(port)); err != nil {
		return err
	}
	fmt.Println("ready", port)
	for {
		event, err := client.Next(ctx)
		if err != nil {
			return err
		}
		switch event.Kind {
		case barewire.Message:
			if err := client.Send(ctx, event.Flow, event.Data); err != nil {
				return err
			}
		case barewire.Closed:
			return nil
		}
	}
}

func measure(l link, size, window int, warmup, measured time.Duration, file string) error {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 31)
	}
	if err := l.send(data); err != nil {
		return err
	}
	if got, err := l.receive(); err != nil {
		return err
	} else if !bytes.Equal(got, data) {
		return errors.New("another answer than what was sent")
	}
	sent, next := make([]time.Time, window), 0
	times := make([]uint32, 0, 1<<22)
	begin := time.Now().Add(warmup)
	end := begin.Add(measured)
	for i := range sent {
		sent[i] = time.Now()
		if err := l.send(data); err != nil {
			return err
		}
	}
	for {
		got, err := l.receive()
		if err != nil {
			return err
		}
		if len(got) != size {
			return errors.New("an answer of another length")
		}
		at := time.Now()
		if !at.Before(begin) {
			times = append(times, uint32(min(at.Sub(sent[next]).Nanoseconds(), math.MaxUint32)))
		}
		if !at.Before(end) {
			if err := write(file, times); err != nil {
				return err
			}
			fmt.Println("measured", at.Sub(begin).Nanoseconds())
			return nil
		}
		sent[next] = time.Now()
		if err := l.send(data); err != nil {
			return err
		}
		next = (next + 1) % window
	}
}

func write(file string, times []uint32) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	if err := binary.Write(buffered, binary.LittleEndian, times); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return out.Close()
}

var errUsage = errors.New("usage: serve SYSTEM PORT SIZE | run SYSTEM ADDRESS:PORT SIZE WINDOW WARMUP_MS MEASURE_MS FILE")

func run(args []string) error {
	numbers := func(texts []string) (all []int, err error) {
		for _, text := range texts {
			number, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			all = append(all, number)
		}
		return all, nil
	}
	switch {
	case len(args) == 4 && args[0] == "serve":
		n, err := numbers(args[2:])
		if err != nil {
			return err
		}
		if args[1] != "tcp" {
			return serve(n[0])
		}
		if err := serveTCP(n[0], n[1]); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	case len(args) == 8 && args[0] == "run":
		n, err := numbers(args[3:7])
		if err != nil {
			return err
		}
		var l link
		if args[1] == "tcp" {
			// Go turns Nagle's algorithm off by itself.
			conn, err := net.Dial("tcp4", args[2])
			if err != nil {
				return err
			}
			defer conn.Close()
			l = newTCP(conn, n[0])
		} else {
			client, err := attach("bench client")
			if err != nil {
				return err
			}
			defer client.Close()
			flow, err := client.Connect(context.Background(), args[2], nil)
			if err != nil {
				return err
			}
			l = &messages{client, flow}
		}
		return measure(l, n[0], n[1], time.Duration(n[2])*time.Millisecond, time.Duration(n[3])*time.Millisecond, args[7])
	}
	return errUsage
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
