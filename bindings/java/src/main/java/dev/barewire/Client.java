package dev.barewire;

import static dev.barewire.BarewireException.AGAIN;
import static dev.barewire.BarewireException.BUSY;
import static dev.barewire.BarewireException.INTERRUPTED;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

/**
 * A channel to the barewire daemon, for any number of threads.
 *
 * <p>A thread in {@link #next} takes events itself, so that no other stands between it and its message. Futures are completed by one
 * daemon thread of the client's own, which takes events while one is not complete, and while nobody else does. What depends on a
 * future without an executor runs on that thread and must not wait there; a send that would have to says so
 * ({@link IllegalStateException}).
 */
public final class Client implements AutoCloseable {
    private static final int CALLS_MAX = 4096;
    private static final int KEY_BYTES = 32;
    private static final Duration FOR_EVER = Duration.ofMillis(Long.MAX_VALUE);

    /** Nobody has taken events for so long: the client's own thread does. */
    private static final long KEEP_AFTER_NS = 10_000_000;

    private final long ticket;
    private final Thread taker;
    private final AtomicBoolean freed = new AtomicBoolean();
    private final AtomicLong tokens = new AtomicLong();
    private final ConcurrentHashMap<Long, Call> asked = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<Long, CompletableFuture<Long>> opening =
            new ConcurrentHashMap<>();
    private final Doorman doorman;
    private final ReentrantLock lock = new ReentrantLock();

    /** There is an event, room, an end, or nobody takes events. */
    private final Condition changed = lock.newCondition();

    /** The same, for the client's own thread. */
    private final Condition keep = lock.newCondition();

    // Claims to messages that nobody has read: they hold up who sent them, and take no memory here.
    private final ArrayDeque<long[]> queue = new ArrayDeque<>();
    // What others have taken and the client's own thread is to complete.
    private final ArrayDeque<long[]> handed = new ArrayDeque<>();

    /** Who takes events. */
    private Thread leader;

    /** How often another than the client's own thread was that. */
    private long leads;

    /** The client's own thread sleeps until it is told. */
    private boolean asleep;

    /** Threads that wait for something. */
    private int waiting;

    /** Those of them that wait for room. */
    private int writers;

    private volatile boolean stopping;
    private volatile long room;
    private volatile BarewireException ended;

    private Client(long ticket, String name) {
        this.ticket = ticket;
        doorman = new Doorman(() -> Native.wake(ticket));
        taker = new Thread(this::run, "barewire-" + name);
        taker.setDaemon(true);
        taker.start();
    }

    /**
     * Attaches to the daemon of the usual place: BAREWIRE_SOCKET, or where one answers.
     *
     * @param name what to call the application in statistics
     * @return a client
     */
    public static Client attach(String name) {
        return attach(name, null);
    }

    /**
     * Attaches to a daemon.
     *
     * @param name what to call the application in statistics
     * @param socket the daemon's control socket; null: the usual place
     * @return a client
     */
    public static Client attach(String name, String socket) {
        long[] out = new long[1];
        long code = Native.attach(name, socket, CALLS_MAX, out);
        if (code < 0) {
            throw BarewireException.last(code);
        }
        return new Client(out[0], name);
    }

    /**
     * The library's version.
     *
     * @return such as 0.1.0
     */
    public static String version() {
        return Native.version();
    }

    /** A call's future, which gives the request up when it is cancelled. */
    private final class Call extends CompletableFuture<byte[]> {
        private final long id;

        /** Its event has come, or none will: what completes it is no program's word. */
        private volatile boolean told;

        Call(long id) {
            this.id = id;
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            if (isDone()) {
                return false;
            }
            // 0: its answer is an event already, and comes.
            if (unbusy(() -> Native.requestCancel(ticket, id)) != 1) {
                return false;
            }
            told = true;
            asked.remove(id);
            return super.cancel(mayInterrupt);
        }

        /** Of the event or the end, which come once. */
        void tell(byte[] answer, Throwable why) {
            told = true;
            boolean first = why == null ? complete(answer) : completeExceptionally(why);
            if (!first) {
                // The program had completed it: what it left here waited for this.
                asked.remove(id);
            }
        }

        /** Whoever completed it, it is over. */
        private void over() {
            // 0: its answer is an event already, whose dispatch finds the call here and takes it
            // away.
            if (told || unbusy(() -> Native.requestCancel(ticket, id)) != 0) {
                asked.remove(id);
            }
        }
    }

    private void run() {
        long[] e = new long[7];
        for (; ; ) {
            long[] due = due();
            if (due != null) {
                dispatch(due);
                continue;
            }
            if (ended != null || stopping) {
                break;
            }
            long got = Native.waitEvent(ticket, -1, e);
            if (leave(got, e)) {
                // What an event runs on this thread may close the client.
                dispatch(e);
            }
        }
        boolean closed = stopping;
        end(
                closed
                        ? BarewireException.of(BarewireException.HANDLE, "the client was closed")
                        : ended);
        if (closed) {
            free();
        }
    }

    /** Until there is something to do for the client's own thread: an event that is due, or to take events (null). */
    private long[] due() {
        lock.lock();
        try {
            for (long seen = -1; ; ) {
                long[] due = handed.poll();
                if (due != null || ended != null || stopping) {
                    return due;
                }
                boolean active = leads != seen;
                seen = leads;
                if (leader == null && (isNeeded() || (!active && waiting == 0))) {
                    leader = taker;
                    return null;
                }
                if (leader != null && !active) {
                    // It waits for long. Who leaves says so then.
                    asleep = true;
                    keep.awaitUninterruptibly();
                    asleep = false;
                    seen = -1;
                    continue;
                }
                try {
                    keep.awaitNanos(KEEP_AFTER_NS);
                } catch (InterruptedException e) {
                    // By a program's own action on this thread; it goes on.
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Somebody waits for what only the client's own thread brings. */
    private boolean isNeeded() {
        return writers > 0 || !asked.isEmpty() || !opening.isEmpty();
    }

    /** The leader is none any more, and what it took is said. True: its event is for a future. */
    private boolean leave(long got, long[] e) {
        lock.lock();
        try {
            leader = null;
            boolean isForFuture = false;
            if (got == 1) {
                switch ((int) e[0]) {
                    case 3: // accepted
                    case 4: // message
                    case 9: // closed
                    case 12: // request
                    case 16: // cancelled
                        queue.add(e.clone());
                        break;
                    case 10: // writable
                        room++;
                        changed.signalAll();
                        break;
                    case 11: // woken
                        break;
                    default:
                        isForFuture = true;
                }
            } else if (got < 0 && got != BUSY && got != INTERRUPTED) {
                ended = BarewireException.last(got);
                changed.signalAll();
            }
            if (waiting > 0) {
                changed.signalAll();
            }
            return isForFuture;
        } finally {
            lock.unlock();
        }
    }

    /** A future was made: the client's own thread takes events for it. */
    private void summon() {
        lock.lock();
        try {
            if (leader == null) {
                keep.signal();
            }
        } finally {
            lock.unlock();
        }
    }

    private void end(BarewireException why) {
        lock.lock();
        try {
            ended = why;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        asked.values().forEach(call -> call.tell(null, why));
        opening.values().forEach(f -> f.completeExceptionally(why));
        asked.clear();
        opening.clear();
    }

    private void dispatch(long[] e) {
        long token = e[3];
        switch ((int) e[0]) {
            case 1:
                { // connected
                    CompletableFuture<Long> to = opening.remove(token);
                    if (to == null || !to.complete(e[2])) {
                        unbusy(() -> Native.reset(ticket, e[2]));
                    }
                    return;
                }
            case 2:
                { // not connected
                    CompletableFuture<Long> to = opening.remove(token);
                    if (to != null) {
                        to.completeExceptionally(BarewireException.notConnected((int) e[1]));
                    }
                    return;
                }
            case 7:
                { // listening
                    CompletableFuture<Long> to = opening.remove(token);
                    if (to != null) {
                        to.complete(0L);
                    }
                    return;
                }
            case 8:
                { // not listening
                    CompletableFuture<Long> to = opening.remove(token);
                    if (to != null) {
                        to.completeExceptionally(
                                BarewireException.of(
                                        BarewireException.PORT_TAKEN, "the UDP port is taken"));
                    }
                    return;
                }
            case 13: // response
            case 14: // failure
                answer(answered(token), e);
                return;
            case 15: // unanswered
                answered(token)
                        .tell(
                                null,
                                e[1] == 1
                                        ? new TimeoutException("no answer before the deadline")
                                        : new BarewireException.FlowEnded());
                return;
            default:
                // Of a later release.
        }
    }

    private void answer(Call call, long[] e) {
        try {
            byte[] body = take(e);
            if (e[0] == 13) {
                call.tell(body, null);
            } else {
                call.tell(
                        null,
                        new BarewireException.Failure(
                                (int) e[1], new String(body, StandardCharsets.UTF_8)));
            }
        } catch (BarewireException | OutOfMemoryError why) {
            call.tell(null, why);
        }
    }

    /** Whoever comes first makes the future: the thread that asked, or the one that takes the answer. */
    private Call answered(long id) {
        return asked.computeIfAbsent(id, Call::new);
    }

    private byte[] take(long[] e) {
        long[] code = new long[1];
        byte[] bytes = Native.take(ticket, e[4], e[5], e[6], e[0] == 4 ? 0 : Native.HEAD, code);
        if (bytes == null) {
            if (code[0] < 0) {
                throw BarewireException.last(code[0]);
            }
            throw new OutOfMemoryError("a message of " + e[6] + " bytes");
        }
        return bytes;
    }

    /** Another thread may be inside for a moment. */
    private static long unbusy(LongSupplier attempt) {
        long n = attempt.getAsLong();
        while (n == BUSY) {
            Thread.onSpinWait();
            n = attempt.getAsLong();
        }
        return n;
    }

    private long checked(long n) {
        if (n < 0) {
            BarewireException why = ended;
            throw why != null ? why : BarewireException.last(n);
        }
        return n;
    }

    /** Repeats a call while memory or ring is full. */
    private long patiently(LongSupplier attempt) {
        for (; ; ) {
            long before = room;
            long n = unbusy(attempt);
            if (n != AGAIN) {
                return checked(n);
            }
            if (Thread.currentThread() == taker) {
                throw new IllegalStateException(
                        "full, and the thread that takes events cannot wait: use a method with"
                                + " Async");
            }
            lock.lock();
            writers++;
            try {
                if (leader == null) {
                    keep.signal();
                }
                while (room == before && ended == null) {
                    await(Long.MAX_VALUE);
                }
                if (ended != null) {
                    throw ended;
                }
            } finally {
                writers--;
                lock.unlock();
            }
        }
    }

    /** With the lock. */
    private void await(long ns) {
        waiting++;
        try {
            changed.awaitNanos(ns);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw interrupted();
        } finally {
            waiting--;
        }
    }

    private static BarewireException interrupted() {
        return new BarewireException(INTERRUPTED, "the thread was interrupted");
    }

    private static long act(int op, long ticket, long flow, long number, ByteBuffer data) {
        if (data.isDirect()) {
            return Native.actDirect(
                    op, ticket, flow, number, data, data.position(), data.remaining());
        }
        if (data.hasArray()) {
            return Native.act(
                    op,
                    ticket,
                    flow,
                    number,
                    data.array(),
                    data.arrayOffset() + data.position(),
                    data.remaining());
        }
        byte[] copy = new byte[data.remaining()];
        data.duplicate().get(copy);
        return Native.act(op, ticket, flow, number, copy, 0, copy.length);
    }

    private CompletableFuture<Long> start(
            CompletableFuture<Long> to, long token, LongSupplier attempt) {
        opening.put(token, to);
        try {
            patiently(attempt);
        } catch (RuntimeException e) {
            opening.remove(token);
            throw e;
        }
        summon();
        if (ended != null && opening.remove(token) != null) {
            to.completeExceptionally(ended);
        }
        return to;
    }

    /**
     * Asks for connections on a UDP port.
     *
     * @param udpPort 1 to 65535
     * @return completes when the port is there
     */
    public CompletableFuture<Void> listen(int udpPort) {
        if (udpPort < 1 || udpPort > 65535) {
            throw new IllegalArgumentException("UDP port " + udpPort);
        }
        long token = tokens.incrementAndGet();
        return start(new CompletableFuture<>(), token, () -> Native.listen(ticket, udpPort, token))
                .thenApply(n -> null);
    }

    /**
     * Opens an ordered flow.
     *
     * @param remote such as 10.0.0.2:888
     * @return the flow's number
     */
    public CompletableFuture<Long> connect(String remote) {
        return connect(remote, true);
    }

    /**
     * Opens a flow. A future that is cancelled gives the attempt up.
     *
     * @param remote such as 10.0.0.2:888
     * @param ordered false: messages may arrive in another order than sent
     * @return the flow's number
     */
    public CompletableFuture<Long> connect(String remote, boolean ordered) {
        long token = tokens.incrementAndGet();
        CompletableFuture<Long> to =
                new CompletableFuture<>() {
                    @Override
                    public boolean cancel(boolean mayInterrupt) {
                        if (!super.cancel(mayInterrupt)) {
                            return false;
                        }
                        opening.remove(token);
                        unbusy(() -> Native.cancel(ticket, token));
                        return true;
                    }
                };
        return start(to, token, () -> Native.connect(ticket, remote, ordered ? 0 : 1, token));
    }

    /**
     * Queues a message, and waits for room while there is none.
     *
     * @param flow the flow
     * @param data the message
     */
    public void send(long flow, byte[] data) {
        send(flow, ByteBuffer.wrap(data));
    }

    /**
     * Queues a message, and waits for room while there is none. A direct buffer is copied once, into shared memory.
     *
     * @param flow the flow
     * @param data from its position to its limit, which stay
     */
    public void send(long flow, ByteBuffer data) {
        patiently(() -> act(Native.SEND, ticket, flow, 0, data));
    }

    /**
     * Queues a message.
     *
     * @param flow the flow
     * @param data the message
     * @throws BarewireException.Full while there is no room
     */
    public void trySend(long flow, ByteBuffer data) {
        checked(unbusy(() -> act(Native.SEND, ticket, flow, 0, data)));
    }

    /**
     * Sends a request. A future that is cancelled, or completed by the program ({@code orTimeout}), tells the server.
     *
     * @param flow the flow
     * @param data the request
     * @param timeout for the answer, told to the server; null: for ever
     * @return the answer; fails with {@link TimeoutException}, {@link BarewireException.Failure}, {@link
     *     BarewireException.FlowEnded}
     */
    public CompletableFuture<byte[]> call(long flow, ByteBuffer data, Duration timeout) {
        long us = timeout == null ? 0 : Math.max(1, timeout.toNanos() / 1000);
        long id = patiently(() -> act(Native.REQUEST, ticket, flow, us, data));
        Call call = answered(id);
        call.whenComplete((answer, why) -> call.over());
        summon();
        if (ended != null) {
            call.tell(null, ended);
        }
        return call;
    }

    /**
     * As {@link #call(long, ByteBuffer, Duration)}.
     *
     * @param flow the flow
     * @param data the request
     * @param timeout for the answer
     * @return the answer
     */
    public CompletableFuture<byte[]> call(long flow, byte[] data, Duration timeout) {
        return call(flow, ByteBuffer.wrap(data), timeout);
    }

    /**
     * Answers a request.
     *
     * @param request an event of kind REQUEST
     * @param data the response
     */
    public void respond(Event request, ByteBuffer data) {
        patiently(() -> act(Native.RESPOND, ticket, request.flow(), request.number(), data));
    }

    /**
     * Says that a request has no response.
     *
     * @param request an event of kind REQUEST
     * @param code 0 to 65535, with a meaning of your own
     * @param why for the caller
     */
    public void fail(Event request, int code, String why) {
        if (code < 0 || code > 65535) {
            throw new IllegalArgumentException("code " + code);
        }
        patiently(() -> Native.fail(ticket, request.flow(), request.number(), code, why));
    }

    /**
     * Waits for an event.
     *
     * @return the event
     */
    public Event next() {
        return next(FOR_EVER, null);
    }

    /**
     * Waits for an event.
     *
     * @param timeout for how long
     * @return the event; null when the time was over
     */
    public Event next(Duration timeout) {
        return next(timeout, null);
    }

    /**
     * Waits for an event, and puts its body into a buffer of the program's, so that nothing is allocated for it.
     *
     * @param timeout for how long
     * @param into a direct buffer; a body that fits between position and limit goes there, and becomes the event's body. Null: none
     * @return the event; null when the time was over
     */
    public Event next(Duration timeout, ByteBuffer into) {
        long ms = timeout.toMillis();
        long end = ms > Integer.MAX_VALUE ? Long.MAX_VALUE : System.nanoTime() / 1_000_000 + ms + 1;
        long[] e;
        lock.lock();
        try {
            while ((e = queue.poll()) == null) {
                if (ended != null) {
                    throw ended;
                }
                long left =
                        end == Long.MAX_VALUE
                                ? Integer.MAX_VALUE
                                : end - System.nanoTime() / 1_000_000;
                if (left <= 0) {
                    return null;
                }
                if (leader == null
                        && !stopping
                        && (!isNeeded() || Thread.currentThread() == taker)) {
                    lead((int) left);
                } else {
                    if (leader == taker && !isNeeded()) {
                        // It keeps watch only.
                        Native.wake(ticket);
                    }
                    await(left * 1_000_000);
                }
            }
        } finally {
            lock.unlock();
        }
        switch ((int) e[0]) {
            case 3:
                return event(Event.Kind.ACCEPTED, e, ByteBuffer.allocate(0));
            case 4:
                return event(Event.Kind.MESSAGE, e, body(e, into));
            case 9:
                return event(Event.Kind.CLOSED, e, ByteBuffer.allocate(0));
            case 12:
                return event(Event.Kind.REQUEST, e, body(e, into));
            default:
                return event(Event.Kind.CANCELLED, e, ByteBuffer.allocate(0));
        }
    }

    /** Takes an event, or waits for one for a while. With the lock, which it lets go for that. */
    private void lead(int ms) {
        if (Thread.currentThread().isInterrupted()) {
            throw interrupted();
        }
        leader = Thread.currentThread();
        lock.unlock();
        long[] e = new long[7];
        long got = 0;
        try {
            got = doorman.guard(() -> Native.waitEvent(ticket, ms, e));
        } finally {
            lock.lock();
            leads++;
            if (leave(got, e)) {
                handed.add(e);
            }
            if (asleep || !handed.isEmpty() || ended != null || isNeeded()) {
                keep.signal();
            }
        }
    }

    private static Event event(Event.Kind kind, long[] e, ByteBuffer body) {
        Duration left = kind == Event.Kind.REQUEST ? Duration.ofNanos(e[1] * 1000) : Duration.ZERO;
        return new Event(kind, e[2], kind == Event.Kind.CLOSED ? (int) e[1] : 0, e[3], body, left);
    }

    private ByteBuffer body(long[] e, ByteBuffer into) {
        int head = e[0] == 4 ? 0 : Native.HEAD;
        int len = (int) Math.max(0, e[6] - head);
        if (into == null || !into.isDirect() || into.remaining() < len) {
            return ByteBuffer.wrap(take(e));
        }
        checked(Native.takeDirect(ticket, e[4], e[5], e[6], head, into, into.position()));
        return into.slice(into.position(), len);
    }

    /**
     * Ends a flow after everything sent on it was acknowledged; an event of kind CLOSED follows.
     *
     * @param flow the flow
     */
    public void closeFlow(long flow) {
        patiently(() -> Native.close(ticket, flow));
    }

    /**
     * Who is at the other end of an encrypted flow, as the peer has proven it.
     *
     * @param name what the configuration calls it; "self": this host
     * @param key its public key, 32 bytes
     */
    public record Identity(String name, byte[] key) {}

    /**
     * Who is at the other end of a flow.
     *
     * @param flow the flow
     * @return empty where it is not encrypted, or gone
     */
    public Optional<Identity> peer(long flow) {
        long[] code = new long[1];
        byte[] found = Native.peer(ticket, flow, code);
        checked(code[0]);
        if (found == null) {
            return Optional.empty();
        }
        String name =
                new String(found, KEY_BYTES, found.length - KEY_BYTES, StandardCharsets.UTF_8);
        return Optional.of(new Identity(name, Arrays.copyOf(found, KEY_BYTES)));
    }

    /**
     * Ends a flow at once.
     *
     * @param flow the flow
     */
    public void reset(long flow) {
        patiently(() -> Native.reset(ticket, flow));
    }

    private void free() {
        if (!freed.compareAndSet(false, true)) {
            return;
        }
        // A thread that takes events is woken until it has left.
        while (Native.free(ticket) == BUSY) {
            Native.wake(ticket);
            Thread.onSpinWait();
        }
    }

    /**
     * Ends the client: flows are reset, waits end, and everything on it fails with {@link BarewireException.Closed}. In what depends on a
     * future and runs on the client's own thread it returns at once, and the client ends when that is done.
     */
    @Override
    public void close() {
        stopping = true;
        if (Thread.currentThread() == taker) {
            // It ends when what it runs here is done.
            return;
        }
        boolean interrupted = false;
        while (taker.isAlive()) {
            lock.lock();
            keep.signal();
            lock.unlock();
            Native.wake(ticket);
            try {
                taker.join(1);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        end(BarewireException.of(BarewireException.HANDLE, "the client was closed"));
        free();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
