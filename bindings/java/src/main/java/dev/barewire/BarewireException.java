package dev.barewire;

/** A call failed. */
public class BarewireException extends RuntimeException {
    private static final long serialVersionUID = 1;

    static final int INVALID = -1;
    static final int HANDLE = -2;
    static final int BUSY = -3;
    static final int AGAIN = -4;
    static final int TOO_LARGE = -5;
    static final int DAEMON_GONE = -8;
    static final int INTERRUPTED = -10;
    static final int PORT_TAKEN = -14;
    static final int REFUSED = -15;
    static final int SECURITY = -24;

    private final int code;

    BarewireException(int code, String text) {
        super(text);
        this.code = code;
    }

    /**
     * What kind of failure it is.
     *
     * @return a BW_ERR_ number of barewire.h; 0: the server's word
     */
    public int code() {
        return code;
    }

    /** What this thread's last call failed with. */
    static BarewireException last(long code) {
        return of((int) code, Native.lastError());
    }

    static BarewireException of(int code, String text) {
        switch (code) {
            case HANDLE:
                return new Closed(text);
            case AGAIN:
                return new Full(text);
            case TOO_LARGE:
                return new TooLarge(text);
            case DAEMON_GONE:
                return new DaemonGone(text);
            case REFUSED:
                return new Refused(text);
            default:
                return new BarewireException(code, text);
        }
    }

    /** For a BW_CONNECT_ number. */
    static BarewireException notConnected(int reason) {
        String[] texts = {
            "",
            "nobody listens there",
            "no room for another flow",
            "the peer does not answer",
            "the next hop does not answer, or there is no route",
            "given up",
            "the peer takes encrypted flows only",
            "the peer does not trust this host's key",
            "the peer has another key than the trusted one",
            "the peer does not encrypt",
            "this host does not trust the peer's key",
            "this user may not connect there"
        };
        if (reason >= 6 && reason < texts.length) {
            return new Security(texts[reason]);
        }
        // From -15 on, in the same order.
        return reason < 6
                ? of(-14 - reason, texts[reason])
                : of(-19, "not connected: reason " + reason);
    }

    /** The client was closed. */
    public static final class Closed extends BarewireException {
        private static final long serialVersionUID = 1;

        Closed(String text) {
            super(HANDLE, text);
        }
    }

    /** Memory or ring is full for now. */
    public static final class Full extends BarewireException {
        private static final long serialVersionUID = 1;

        Full(String text) {
            super(AGAIN, text);
        }
    }

    /** The message is above 64 MiB, or larger than the channel's memory. */
    public static final class TooLarge extends BarewireException {
        private static final long serialVersionUID = 1;

        TooLarge(String text) {
            super(TOO_LARGE, text);
        }
    }

    /** The daemon is gone: make another client when it is back. */
    public static final class DaemonGone extends BarewireException {
        private static final long serialVersionUID = 1;

        DaemonGone(String text) {
            super(DAEMON_GONE, text);
        }
    }

    /** Nobody listens there. */
    public static final class Refused extends BarewireException {
        private static final long serialVersionUID = 1;

        Refused(String text) {
            super(REFUSED, text);
        }
    }

    /** The keys or the rules of the two hosts do not let the flow open. */
    public static final class Security extends BarewireException {
        private static final long serialVersionUID = 1;

        Security(String text) {
            super(SECURITY, text);
        }
    }

    /** The flow ended before the answer came. Whether the server acted is not known. */
    public static final class FlowEnded extends BarewireException {
        private static final long serialVersionUID = 1;

        FlowEnded() {
            super(-6, "the flow ended before the answer came");
        }
    }

    /** The server's answer that it has no response. */
    public static final class Failure extends BarewireException {
        private static final long serialVersionUID = 1;
        private final int serverCode;

        Failure(int serverCode, String text) {
            super(0, text);
            this.serverCode = serverCode;
        }

        /**
         * The server's own number.
         *
         * @return 0 to 65535
         */
        public int serverCode() {
            return serverCode;
        }
    }
}
