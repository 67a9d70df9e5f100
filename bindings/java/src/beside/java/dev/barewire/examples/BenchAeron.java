package dev.barewire.examples;

import io.aeron.Aeron;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;

import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.UnsafeBuffer;

import java.io.EOFException;
import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;

/**
 * What {@link Bench} measures with {@code aeron}: Aeron over UDP, its media driver in the thread that sends and receives, which never
 * sleeps. Requests have one stream and responses another one, whose port is the next.
 */
public final class BenchAeron implements Bench.Peer {
    private static final int STREAM = 1;

    /** Needed by {@link Bench}. */
    public BenchAeron() {}

    /** A stream in and one out. */
    private static final class Pair implements Bench.Link {
        private final MediaDriver driver;
        private final Aeron aeron;
        private final AgentInvoker drive;
        private final AgentInvoker conduct;
        private final Publication out;
        private final Subscription in;
        private final UnsafeBuffer outgoing = new UnsafeBuffer(0, 0);
        private final ByteBuffer incoming;
        private final FragmentHandler handler;
        private boolean isThere;

        Pair(String outChannel, String inChannel, int size) {
            String place =
                    System.getProperty(
                            "barewire.bench.memory", System.getProperty("java.io.tmpdir"));
            String folder = place + "/aeron-bench-" + ProcessHandle.current().pid();
            driver =
                    MediaDriver.launch(
                            new MediaDriver.Context()
                                    .aeronDirectoryName(folder)
                                    .threadingMode(ThreadingMode.INVOKER)
                                    .dirDeleteOnStart(true)
                                    .dirDeleteOnShutdown(true));
            drive = driver.sharedAgentInvoker();
            aeron =
                    Aeron.connect(
                            new Aeron.Context()
                                    .aeronDirectoryName(folder)
                                    .useConductorAgentInvoker(true)
                                    .driverAgentInvoker(drive));
            conduct = aeron.conductorAgentInvoker();
            out = aeron.addExclusivePublication(outChannel, STREAM);
            in = aeron.addSubscription(inChannel, STREAM);
            incoming = ByteBuffer.allocateDirect(size);
            handler =
                    new FragmentAssembler(
                            (buffer, offset, length, header) -> {
                                incoming.clear();
                                buffer.getBytes(offset, incoming, length);
                                incoming.flip();
                                isThere = true;
                            });
        }

        void awaitPeer() {
            while (!out.isConnected() || !in.isConnected()) {
                turn();
            }
        }

        private void turn() {
            drive.invoke();
            conduct.invoke();
        }

        @Override
        public void send(ByteBuffer data) throws IOException {
            outgoing.wrap(data, data.position(), data.remaining());
            for (; ; ) {
                long position = out.offer(outgoing);
                if (position > 0) {
                    // On the wire at once, as a socket would.
                    drive.invoke();
                    return;
                }
                if (position == Publication.CLOSED || position == Publication.NOT_CONNECTED) {
                    throw new EOFException("the peer is gone");
                }
                turn();
            }
        }

        @Override
        public ByteBuffer receive() throws IOException {
            isThere = false;
            while (!isThere) {
                turn();
                in.poll(handler, 1);
                if (!isThere && !in.isConnected()) {
                    throw new EOFException("the peer is gone");
                }
            }
            return incoming;
        }

        @Override
        public void close() {
            aeron.close();
            driver.close();
        }
    }

    @Override
    public void serve(int port, int size) throws IOException {
        String requests = "aeron:udp?endpoint=0.0.0.0:" + port;
        String responses = "aeron:udp?control-mode=dynamic|control=0.0.0.0:" + (port + 1);
        try (Pair pair = new Pair(responses, requests, size)) {
            System.out.println("ready " + port);
            pair.awaitPeer();
            for (; ; ) {
                pair.send(pair.receive());
            }
        } catch (EOFException e) {
            // The client has ended.
        }
    }

    @Override
    public Bench.Link connect(InetSocketAddress server, int size) throws IOException {
        String own;
        // The address that the machine speaks to the server from; nothing is sent.
        try (DatagramSocket probe = new DatagramSocket()) {
            probe.connect(server);
            own = probe.getLocalAddress().getHostAddress();
        }
        String host = server.getAddress().getHostAddress();
        String requests = "aeron:udp?endpoint=" + host + ":" + server.getPort();
        String responses =
                "aeron:udp?endpoint="
                        + own
                        + ":0|control-mode=dynamic|control="
                        + host
                        + ":"
                        + (server.getPort() + 1);
        Pair pair = new Pair(requests, responses, size);
        pair.awaitPeer();
        return pair;
    }
}
