// An echo service and a client of it.
//
//	echo 888                     answers every message on UDP port 888
//	echo 10.0.0.2:888 hello      sends "hello" and prints the answer
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"barewire.dev/go"
)

func serve(client *barewire.Client, port uint16) error {
	if err := client.Listen(context.Background(), port); err != nil {
		return err
	}
	fmt.Println("listening on UDP port", port)
	for ctx := context.Background(); ; {
		event, err := client.Next(ctx)
		if err != nil {
			return err
		}
		if event.Kind == barewire.Message {
			if err := client.Send(ctx, event.Flow, event.Data); err != nil {
				fmt.Fprintln(os.Stderr, "echo: not sent:", err)
			}
		}
	}
}

func ask(client *barewire.Client, where, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	flow, err := client.Connect(ctx, where, nil)
	if err != nil {
		return err
	}
	if err := client.Send(ctx, flow, []byte(text)); err != nil {
		return err
	}
	for {
		event, err := client.Next(ctx)
		if err != nil {
			return err
		}
		if event.Kind == barewire.Message {
			fmt.Println(string(event.Data))
			return nil
		}
	}
}

func run() error {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		return fmt.Errorf("usage: echo UDP_PORT | echo ADDRESS:UDP_PORT TEXT")
	}
	client, err := barewire.Attach("echo", "")
	if err != nil {
		return err
	}
	defer client.Close()
	if len(os.Args) == 3 {
		return ask(client, os.Args[1], os.Args[2])
	}
	port, err := strconv.ParseUint(os.Args[1], 10, 16)
	if err != nil {
		return err
	}
	return serve(client, uint16(port))
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}
