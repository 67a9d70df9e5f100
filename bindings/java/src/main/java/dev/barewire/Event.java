package dev.barewire;

import java.nio.ByteBuffer;
import java.time.Duration;

/**
 * Something that happened.
 *
 * @param kind what
 * @param flow the flow's number
 * @param reason of {@link Kind#CLOSED}: a BW_CLOSED_ number of barewire.h
 * @param number of {@link Kind#REQUEST} and {@link Kind#CANCELLED}: the request's
 * @param body of {@link Kind#MESSAGE} and {@link Kind#REQUEST}; otherwise empty
 * @param left of {@link Kind#REQUEST}: until the caller's deadline when it asked; zero: none
 */
public record Event(Kind kind, long flow, int reason, long number, ByteBuffer body, Duration left) {
    /** What an event is. */
    public enum Kind {
        /** A peer connected to a port that this client listens on. */
        ACCEPTED,
        /** A message. */
        MESSAGE,
        /** A flow has ended. */
        CLOSED,
        /** A request: answer it with respond or fail. */
        REQUEST,
        /** The caller no longer waits for this request. */
        CANCELLED
    }

    /** This side closed the flow, and everything sent was acknowledged. */
    public static final int CLOSED_LOCAL = 0;

    /** The peer closed it, after all it had sent. */
    public static final int CLOSED_PEER = 1;

    /** The peer's application reset it or died. */
    public static final int CLOSED_RESET = 2;

    /**
     * A copy of the body.
     *
     * @return its bytes
     */
    public byte[] bytes() {
        byte[] out = new byte[body.remaining()];
        body.duplicate().get(out);
        return out;
    }
}
