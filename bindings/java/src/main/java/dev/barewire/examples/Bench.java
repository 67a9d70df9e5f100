package dev.barewire.examples;

import dev.barewire.Client;
import dev.barewire.Event;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;

/**
 * Requests and responses, timed: through the barewire daemon, or over an ordinary blocking TCP socket.
 *
 * <pre>
 * serve barewire 888 SIZE
 * run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE
 * </pre>
 *
 * {@code tcp} instead of {@code barewire} has a port of 0 for any. {@code aeron} is there where {@code BenchAeron} was compiled with
 * Aeron's jar, in the class path of both: {@code has aeron} says whether it is. A server says {@code ready PORT}, and ends after its
 * client. A client leaves each round trip in FILE, as ns in 32 bits, and says {@code measured} and the ns that they took.
 */
public final class Bench {
    private static final Duration FOREVER = Duration.ofDays(1);

    private Bench() {}

    interface Link extends AutoCloseable {
        void send(ByteBuffer data) throws IOException;

        ByteBuffer receive() throws IOException;

        @Override
        void close() throws IOException;
    }

    /** What another system's ends are made by. */
    interface Peer {
        void serve(int port, int size) throws IOException;

        Link connect(InetSocketAddress server, int size) throws IOException;
    }

    /** Not compiled with this class, which needs no other packages. */
    private static Peer aeron() {
        try {
            Class.forName("io.aeron.Aeron");
            Class<?> there = Class.forName("dev.barewire.examples.BenchAeron");
            return (Peer) there.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError e) {
            throw new UnsupportedOperationException("Aeron is not in the class path: " + e, e);
        }
    }

    private static InetSocketAddress address(String where) {
        int colon = where.lastIndexOf(':');
        return new InetSocketAddress(
                where.substring(0, colon), Integer.parseInt(where.substring(colon + 1)));
    }

    private static Link connect(String system, String where, int size) throws IOException {
        if (system.equals("aeron")) {
            return aeron().connect(address(where), size);
        }
        if (system.equals("tcp")) {
            InetSocketAddress server = address(where);
            return new Tcp(new Socket(server.getAddress(), server.getPort()), size);
        }
        return new Messages(where, size);
    }

    private static final class Messages implements Link {
        private final Client client = Client.attach("bench client");
        private final long flow;
        private final ByteBuffer into;

        Messages(String where, int size) {
            flow = client.connect(where).join();
            into = ByteBuffer.allocateDirect(size);
        }

        @Override
        public void send(ByteBuffer data) {
            client.send(flow, data);
        }

        @Override
        public ByteBuffer receive() throws IOException {
            for (; ; ) {
                Event event = client.next(FOREVER, into);
                if (event == null) {
                    continue;
                }
                if (event.kind() == Event.Kind.MESSAGE) {
                    return event.body();
                }
                if (event.kind() == Event.Kind.CLOSED) {
                    throw new EOFException("the flow ended");
                }
            }
        }

        @Override
        public void close() {
            client.close();
        }
    }

    /** A length of four bytes, and so many bytes. */
    private static final class Tcp implements Link {
        private final Socket socket;
        private final InputStream in;
        private final OutputStream out;
        private final byte[] incoming;
        private final byte[] outgoing;
        private final ByteBuffer body;

        Tcp(Socket socket, int size) throws IOException {
            this.socket = socket;
            socket.setTcpNoDelay(true);
            in = socket.getInputStream();
            out = socket.getOutputStream();
            incoming = new byte[size + 4];
            outgoing =
                    ByteBuffer.allocate(size + 4)
                            .order(ByteOrder.LITTLE_ENDIAN)
                            .putInt(0, size)
                            .array();
            body = ByteBuffer.wrap(incoming, 4, size).slice();
        }

        @Override
        public void send(ByteBuffer data) throws IOException {
            data.get(0, outgoing, 4, outgoing.length - 4);
            out.write(outgoing);
        }

        @Override
        public ByteBuffer receive() throws IOException {
            if (in.readNBytes(incoming, 0, incoming.length) < incoming.length) {
                throw new EOFException("the connection ended");
            }
            if (!Arrays.equals(incoming, 0, 4, outgoing, 0, 4)) {
                throw new IOException("a message of another length");
            }
            return body;
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    private static void serve(String system, int port, int size) throws IOException {
        if (system.equals("aeron")) {
            aeron().serve(port, size);
            return;
        }
        if (system.equals("tcp")) {
            try (ServerSocket server = new ServerSocket(port)) {
                System.out.println("ready " + server.getLocalPort());
                Tcp link = new Tcp(server.accept(), size);
                for (; ; ) {
                    link.send(link.receive());
                }
            } catch (EOFException e) {
                return;
            }
        }
        try (Client client = Client.attach("bench server")) {
            client.listen(port).join();
            System.out.println("ready " + port);
            ByteBuffer into = ByteBuffer.allocateDirect(size);
            for (; ; ) {
                Event event = client.next(FOREVER, into);
                if (event != null && event.kind() == Event.Kind.MESSAGE) {
                    client.send(event.flow(), event.body());
                } else if (event != null && event.kind() == Event.Kind.CLOSED) {
                    return;
                }
            }
        }
    }

    private static void measure(
            Link link, int size, int window, long warmup, long measured, Path file)
            throws IOException {
        ByteBuffer data = ByteBuffer.allocateDirect(size);
        for (int i = 0; i < size; i++) {
            data.put(i, (byte) (i * 31));
        }
        link.send(data);
        if (!link.receive().equals(data)) {
            throw new IOException("another answer than what was sent");
        }
        long[] sent = new long[window];
        int next = 0;
        int[] times = new int[1 << 22];
        int count = 0;
        long begin = System.nanoTime() + warmup;
        long end = begin + measured;
        for (int i = 0; i < window; i++) {
            sent[i] = System.nanoTime();
            link.send(data);
        }
        for (; ; ) {
            if (link.receive().remaining() != size) {
                throw new IOException("an answer of another length");
            }
            long at = System.nanoTime();
            if (at - begin >= 0) {
                if (count == times.length) {
                    times = Arrays.copyOf(times, count * 2);
                }
                times[count++] = (int) Math.min(at - sent[next], 0xffff_ffffL);
            }
            if (at - end >= 0) {
                write(times, count, file);
                System.out.println("measured " + (at - begin));
                return;
            }
            sent[next] = System.nanoTime();
            link.send(data);
            next = (next + 1) % window;
        }
    }

    private static void write(int[] times, int count, Path file) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(count * 4).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < count; i++) {
            bytes.putInt(times[i]);
        }
        Files.write(file, bytes.array());
    }

    /**
     * Runs it.
     *
     * @param args as above
     * @throws IOException when a socket or the file fails
     */
    public static void main(String[] args) throws IOException {
        if (args.length == 4 && args[0].equals("serve")) {
            serve(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        } else if (args.length == 8 && args[0].equals("run")) {
            int size = Integer.parseInt(args[3]);
            try (Link link = connect(args[1], args[2], size)) {
                measure(
                        link,
                        size,
                        Integer.parseInt(args[4]),
                        Long.parseLong(args[5]) * 1_000_000,
                        Long.parseLong(args[6]) * 1_000_000,
                        Path.of(args[7]));
            }
        } else if (args.length == 2 && args[0].equals("has")) {
            if (args[1].equals("aeron")) {
                aeron();
            }
        } else {
            System.err.println(
                    "usage: has SYSTEM | serve SYSTEM PORT SIZE | run SYSTEM ADDRESS:PORT SIZE"
                            + " WINDOW WARMUP_MS MEASURE_MS FILE");
            System.exit(2);
        }
    }
}
