import dev.barewire.BarewireException;
import dev.barewire.Client;
import dev.barewire.Event;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/** The Java side of bindings/conformance: {@code serve PORT}, or {@code run ADDRESS KIND KEY=VALUE...}. */
public final class Conformance {
    private final String address;
    private final Map<String, String> given = new HashMap<>();
    private final Client client = Client.attach("client");

    private Conformance(String[] args) {
        address = args[1];
        for (String pair : Arrays.asList(args).subList(3, args.length)) {
            given.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            System.err.println("not so: " + what);
            System.exit(1);
        }
    }

    static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Half of them direct, so that both ways are taken. */
    static ByteBuffer pattern(int size, long seed) {
        ByteBuffer out =
                seed % 2 == 0 ? ByteBuffer.allocateDirect(size) : ByteBuffer.allocate(size);
        for (int i = 0; i < size; i++) {
            out.put(i, (byte) (i * 31 + seed * 7 + (i >> 8)));
        }
        return out;
    }

    static void serve(int port) {
        Client client = Client.attach("server");
        client.listen(port).join();
        System.out.println("ready");
        int cancelled = 0;
        ByteBuffer into = ByteBuffer.allocateDirect(4096);
        for (; ; ) {
            Event event = client.next(Duration.ofDays(1), into);
            try {
                switch (event.kind()) {
                    case CANCELLED -> cancelled++;
                    case MESSAGE -> client.send(event.flow(), event.body());
                    case REQUEST -> {
                        String text =
                                event.body().remaining() < 16
                                        ? new String(event.bytes(), StandardCharsets.UTF_8)
                                        : "";
                        switch (text) {
                            case "hold" -> {}
                            case "fail" -> client.fail(event, 7, "as asked");
                            case "cancelled?" ->
                                    client.respond(event, bytes(Integer.toString(cancelled)));
                            default -> client.respond(event, event.body());
                        }
                    }
                    default -> {}
                }
            } catch (BarewireException.DaemonGone e) {
                throw e;
            } catch (BarewireException e) {
                // The flow has ended meanwhile.
            }
        }
    }

    int number(String key, int otherwise) {
        return given.containsKey(key) ? Integer.parseInt(given.get(key)) : otherwise;
    }

    long connect() {
        return client.connect(address, number("ordered", 1) != 0).join();
    }

    Event next(Event.Kind kind) {
        for (; ; ) {
            Event event = client.next(Duration.ofSeconds(30));
            check(event != null, "an event of kind " + kind + " comes");
            if (event.kind() == kind) {
                return event;
            }
            check(event.kind() != Event.Kind.CLOSED, "no flow ends meanwhile");
        }
    }

    void echo() {
        boolean ordered = number("ordered", 1) != 0;
        List<Long> flows = new ArrayList<>();
        for (int i = 0; i < number("flows", 1); i++) {
            flows.add(connect());
        }
        int count = number("count", 1);
        for (String size : given.get("sizes").split(",")) {
            Map<Long, List<ByteBuffer>> expected = new HashMap<>();
            for (int n = 0; n < count; n++) {
                for (long flow : flows) {
                    ByteBuffer data = pattern(Integer.parseInt(size), n + flow);
                    client.send(flow, data);
                    expected.computeIfAbsent(flow, k -> new ArrayList<>()).add(data);
                }
            }
            for (int n = count * flows.size(); n > 0; n--) {
                Event event = next(Event.Kind.MESSAGE);
                List<ByteBuffer> waiting = expected.get(event.flow());
                int at =
                        ordered && !waiting.get(0).equals(event.body())
                                ? -1
                                : waiting.indexOf(event.body());
                check(at >= 0, "what comes back is what was sent, of " + size + " bytes");
                waiting.remove(at);
            }
        }
    }

    static Throwable fails(CompletableFuture<?> future) {
        try {
            future.join();
        } catch (CompletionException e) {
            return e.getCause();
        } catch (RuntimeException e) {
            return e;
        }
        return null;
    }

    interface Work {
        void run();
    }

    static <E extends Throwable> void raises(Class<E> kind, Work work) {
        try {
            work.run();
        } catch (Throwable e) {
            check(kind.isInstance(e), kind + ", not " + e);
            return;
        }
        check(false, kind + " was not raised");
    }

    byte[] call(long flow, String text) {
        return client.call(flow, bytes(text), Duration.ofMinutes(1)).join();
    }

    int cancelled(long flow) {
        return Integer.parseInt(new String(call(flow, "cancelled?"), StandardCharsets.UTF_8));
    }

    void requests() {
        long flow = connect();
        List<CompletableFuture<byte[]>> all = new ArrayList<>();
        for (int n = 0; n < number("count", 1); n++) {
            all.add(client.call(flow, pattern(number("size", 1), n), Duration.ofMinutes(1)));
        }
        for (int n = 0; n < all.size(); n++) {
            check(
                    ByteBuffer.wrap(all.get(n).join()).equals(pattern(number("size", 1), n)),
                    "each answer is to its request");
        }
    }

    void pressure() {
        long flow = connect();
        int sent = 0;
        try {
            for (; ; sent++) {
                client.trySend(flow, pattern(number("size", 1), sent));
            }
        } catch (BarewireException.Full e) {
            check(sent > 0, "some were taken");
        }
        for (int got = 0; got < sent; got++) {
            check(
                    next(Event.Kind.MESSAGE).body().equals(pattern(number("size", 1), got)),
                    "echoes come in order");
        }
        // And there is room again.
        client.send(flow, bytes("x"));
        check(next(Event.Kind.MESSAGE).body().equals(bytes("x")), "room comes back");
    }

    /** Its memory is looked at from outside, at each of the two lines. */
    void flat() throws IOException {
        long flow = connect();
        ByteBuffer data = pattern(number("size", 1), 0);
        int count = number("count", 4);
        int sent = 0;
        for (int got = 1; got <= count; got++) {
            for (; sent < count && sent < got + 31; sent++) {
                client.send(flow, data);
            }
            check(next(Event.Kind.MESSAGE).body().remaining() == data.remaining(), "echoes come");
            if (got == count / 4 || got == count) {
                System.out.println("at " + got);
                check(System.in.read() == '\n', "a line");
            }
        }
    }

    void deadlines() {
        long flow = connect();
        List<CompletableFuture<byte[]>> all = new ArrayList<>();
        for (int n = 0; n < number("count", 1); n++) {
            all.add(client.call(flow, bytes("hold"), Duration.ofMillis(number("timeout_ms", 1))));
        }
        for (CompletableFuture<byte[]> call : all) {
            Throwable why = fails(call.orTimeout(30, TimeUnit.SECONDS));
            check(
                    why instanceof TimeoutException
                            && "no answer before the deadline".equals(why.getMessage()),
                    "the deadline, not " + why);
        }
    }

    void bothWays() throws InterruptedException {
        long flow = connect();
        ByteBuffer data = pattern(number("size", 1), 0);
        Thread reader =
                new Thread(
                        () -> {
                            for (int n = 0; n < number("count", 1); n++) {
                                check(next(Event.Kind.MESSAGE).body().equals(data), "echoes come");
                            }
                        });
        reader.start();
        for (int n = 0; n < number("count", 1); n++) {
            client.send(flow, data.duplicate());
        }
        reader.join();
    }

    void peerKilledSending() throws IOException {
        long flow = connect();
        ByteBuffer data = pattern(number("size", 1), 0);
        client.send(flow, bytes("x"));
        next(Event.Kind.MESSAGE);
        System.out.println("connected");
        check(System.in.read() == '\n', "a line");
        // The peer stands still.
        raises(
                BarewireException.Full.class,
                () -> {
                    for (; ; ) {
                        client.trySend(flow, data);
                    }
                });
        System.out.println("full");
        try {
            for (; ; ) {
                client.send(flow, data);
            }
        } catch (BarewireException e) {
            check(e.code() == -6 || e.code() == -7, "no such flow, or it is closing, not " + e);
        }
    }

    void closeUnread() throws InterruptedException {
        long flow = connect();
        ByteBuffer data = pattern(number("size", 1), 0);
        for (int n = 0; n <= number("count", 1); n++) {
            client.send(flow, data);
        }
        next(Event.Kind.MESSAGE);
        Thread.sleep(100);
        boolean[] ended = new boolean[1];
        Thread reader =
                new Thread(
                        () -> {
                            try {
                                for (; ; ) {
                                    Event event = client.next();
                                    check(
                                            event.kind() != Event.Kind.MESSAGE
                                                    || event.body().equals(data),
                                            "what was sent, or an error");
                                }
                            } catch (BarewireException.Closed e) {
                                ended[0] = true;
                            }
                        });
        reader.start();
        client.close();
        reader.join();
        check(ended[0], "the reader was ended");
    }

    void connectCancelled() throws IOException {
        for (int n = 0; n < number("count", 1); n++) {
            CompletableFuture<Long> attempt = client.connect(address);
            LockSupport.parkNanos(n * 7_000 % 400_000);
            if (!attempt.cancel(true)) {
                client.reset(attempt.join());
            }
        }
        System.out.println("cancelled");
        check(System.in.read() == '\n', "a line");
    }

    /** Calls that the program completes itself leave nothing behind, and nothing is left undone. */
    void completedByTheProgram() throws ReflectiveOperationException {
        long flow = connect();
        for (int n = 0; n < 1000; n++) {
            CompletableFuture<byte[]> call =
                    client.call(flow, bytes("echo"), Duration.ofMinutes(1));
            LockSupport.parkNanos(n * 700 % 100_000);
            call.complete(new byte[0]);
        }
        call(flow, "the last");
        Field asked = Client.class.getDeclaredField("asked");
        asked.setAccessible(true);
        int left = ((Map<?, ?>) asked.get(client)).size();
        check(left == 0, left + " calls are left");
    }

    void closeCalling() {
        long flow = connect();
        List<CompletableFuture<byte[]>> held = new ArrayList<>();
        for (int n = 0; n < number("count", 1); n++) {
            held.add(client.call(flow, bytes("hold"), Duration.ofMinutes(1)));
        }
        client.close();
        for (CompletableFuture<byte[]> call : held) {
            check(fails(call) instanceof BarewireException.Closed, "the call was ended");
        }
        raises(BarewireException.Closed.class, () -> client.call(flow, bytes("hold"), null));
    }

    void closeWaiting() throws InterruptedException {
        long flow = connect();
        Throwable[] ended = new Throwable[1];
        Runnable waits =
                () -> {
                    try {
                        client.next();
                    } catch (BarewireException e) {
                        ended[0] = e;
                    }
                };
        Thread interrupted = new Thread(waits);
        interrupted.start();
        Thread.sleep(50);
        interrupted.interrupt();
        interrupted.join();
        check(
                ended[0] != null && ended[0].getMessage().contains("interrupted"),
                "a thread that waits can be interrupted");
        CompletableFuture<byte[]> held = client.call(flow, bytes("hold"), null);
        Thread waiter = new Thread(waits);
        waiter.start();
        client.close();
        waiter.join();
        check(ended[0] instanceof BarewireException.Closed, "the wait was ended");
        check(fails(held) instanceof BarewireException.Closed, "the call was ended");
    }

    void run(String kind) throws IOException, InterruptedException, ReflectiveOperationException {
        switch (kind) {
            case "echo" -> echo();
            case "too_large" -> {
                long flow = connect();
                raises(
                        BarewireException.TooLarge.class,
                        () -> client.trySend(flow, ByteBuffer.allocateDirect(number("size", 0))));
            }
            case "refused" -> {
                Throwable why = fails(client.connect(address.split(":")[0] + ":1"));
                check(why instanceof BarewireException.Refused, "refused, not " + why);
            }
            case "wrong_key" -> {
                Throwable why = fails(client.connect(address));
                check(
                        why instanceof BarewireException.Security,
                        "keys that do not fit, not " + why);
            }
            case "peer" -> {
                long flow = connect();
                var peer = client.peer(flow);
                check(peer.isPresent() == given.containsKey("name"), "somebody, or nobody");
                if (peer.isPresent()) {
                    String key = HexFormat.of().formatHex(peer.get().key());
                    check(
                            peer.get().name().equals(given.get("name"))
                                    && key.equals(given.get("key")),
                            "the one who is expected");
                }
                check(client.peer(flow + 1).isEmpty(), "nobody on no flow");
            }
            case "requests" -> {
                requests();
                completedByTheProgram();
            }
            case "deadline" -> {
                Throwable why =
                        fails(
                                client.call(
                                        connect(),
                                        bytes("hold"),
                                        Duration.ofMillis(number("timeout_ms", 1))));
                check(why instanceof TimeoutException, "the deadline, not " + why);
            }
            case "deadlines" -> deadlines();
            case "both_ways" -> bothWays();
            case "peer_killed_sending" -> peerKilledSending();
            case "close_unread" -> closeUnread();
            case "connect_cancelled" -> connectCancelled();
            case "failure" -> {
                Throwable why = fails(client.call(connect(), bytes("fail"), Duration.ofMinutes(1)));
                check(
                        why instanceof BarewireException.Failure f
                                && f.serverCode() == 7
                                && f.getMessage().equals("as asked"),
                        "its code and text, not " + why);
            }
            case "cancellation" -> {
                long flow = connect();
                int before = cancelled(flow);
                CompletableFuture<byte[]> held =
                        client.call(flow, bytes("hold"), Duration.ofMinutes(1));
                check(held.cancel(true) && held.isCancelled(), "cancelled");
                check(cancelled(flow) == before + 1, "the server hears of it");
            }
            case "pressure" -> pressure();
            case "close_wait" -> {
                long flow = connect();
                for (int n = 0; n < number("count", 1); n++) {
                    client.send(flow, pattern(number("size", 1), n));
                }
                client.closeFlow(flow);
                check(
                        next(Event.Kind.CLOSED).reason() == Event.CLOSED_LOCAL,
                        "closed by this side, all acknowledged");
            }
            case "use_after_close" -> {
                long flow = connect();
                client.close();
                raises(BarewireException.Closed.class, () -> client.trySend(flow, bytes("x")));
                raises(BarewireException.Closed.class, () -> client.send(flow, bytes("x")));
                raises(BarewireException.Closed.class, () -> client.next());
                client.close();
                // On the thread that takes events, which ends by itself.
                Client other = Client.attach("other");
                other.call(other.connect(address).join(), bytes("hold"), Duration.ofMillis(200))
                        .whenComplete((answer, why) -> other.close());
                raises(
                        BarewireException.Closed.class,
                        () -> check(other.next(Duration.ofSeconds(10)) != null, "it is closed"));
            }
            case "flat" -> flat();
            case "close_calling" -> closeCalling();
            case "close_waiting" -> closeWaiting();
            case "peer_killed" -> {
                client.send(connect(), bytes("x"));
                next(Event.Kind.MESSAGE);
                System.out.println("connected");
                check(
                        next(Event.Kind.CLOSED).reason() == Event.CLOSED_RESET,
                        "reset by the peer's end");
            }
            case "daemon_restarted" -> {
                System.out.println("connected");
                raises(
                        BarewireException.DaemonGone.class,
                        () -> client.next(Duration.ofSeconds(30)));
                client.close();
                System.out.println("gone");
                check(System.in.read() == '\n', "a line");
                Client.attach("again").listen(999).join();
            }
            default -> {
                System.out.println("SKIPPED");
                return;
            }
        }
        System.out.println("ok");
    }

    /** Runs it. */
    public static void main(String[] args)
            throws IOException, InterruptedException, ReflectiveOperationException {
        if (args[0].equals("serve")) {
            serve(Integer.parseInt(args[1]));
        } else {
            new Conformance(args).run(args[2]);
        }
    }
}
