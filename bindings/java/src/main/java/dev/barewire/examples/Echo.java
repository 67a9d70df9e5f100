package dev.barewire.examples;

import dev.barewire.BarewireException;
import dev.barewire.Client;
import dev.barewire.Event;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletionException;

/** An echo service and a client of it: {@code UDP_PORT}, or {@code ADDRESS:UDP_PORT TEXT}. */
public final class Echo {
    private Echo() {}

    /**
     * Runs it.
     *
     * @param args a UDP port, or an address with a UDP port and a text
     */
    public static void main(String[] args) {
        if (args.length != 1 && args.length != 2) {
            System.err.println("usage: UDP_PORT | ADDRESS:UDP_PORT TEXT");
            System.exit(2);
        }
        try (Client client = Client.attach("echo")) {
            if (args.length == 1) {
                serve(client, Integer.parseInt(args[0]));
            } else {
                ask(client, args[0], args[1]);
            }
        } catch (BarewireException | CompletionException e) {
            System.err.println("echo: " + e.getMessage());
            System.exit(1);
        }
    }

    private static void serve(Client client, int udpPort) {
        client.listen(udpPort).join();
        System.out.println("listening on UDP port " + udpPort);
        for (; ; ) {
            Event event = client.next();
            if (event.kind() == Event.Kind.MESSAGE) {
                try {
                    client.send(event.flow(), event.body());
                } catch (BarewireException.DaemonGone e) {
                    throw e;
                } catch (BarewireException e) {
                    System.err.println("echo: not sent: " + e.getMessage());
                }
            }
        }
    }

    private static void ask(Client client, String where, String text) {
        long flow = client.connect(where).join();
        client.send(flow, text.getBytes(StandardCharsets.UTF_8));
        Event event = client.next(Duration.ofSeconds(5));
        if (event == null || event.kind() != Event.Kind.MESSAGE) {
            System.err.println("echo: no answer");
            System.exit(1);
        }
        System.out.println(new String(event.bytes(), StandardCharsets.UTF_8));
    }
}
