package dev.barewire;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The native part: results are numbers, negative ones are BW_ERR_ codes of barewire.h. */
final class Native {
    static final int SEND = 0;
    static final int REQUEST = 1;
    static final int RESPOND = 2;

    /** Where the body begins in the message of a request or an answer. */
    static final int HEAD = 16;

    static {
        load();
    }

    private Native() {}

    /** The file that the property names, or the one in the jar. */
    private static void load() {
        String named = System.getProperty("barewire.library");
        if (named != null) {
            System.load(Path.of(named).toAbsolutePath().toString());
            return;
        }
        String machine =
                System.getProperty("os.arch").equals("amd64")
                        ? "x86_64"
                        : System.getProperty("os.arch");
        String place = "native/linux-" + machine + "/libbarewire_java.so";
        try (InputStream in = Native.class.getResourceAsStream(place)) {
            if (in == null) {
                throw new UnsatisfiedLinkError("this jar has no " + place);
            }
            Path file = Files.createTempFile("barewire", ".so");
            try {
                Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                // It stays mapped.
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            throw new UnsatisfiedLinkError(e.toString());
        }
    }

    static native long attach(String name, String socket, int unansweredMax, long[] out);

    static native long free(long client);

    static native long wake(long client);

    static native long listen(long client, int port, long token);

    static native long connect(long client, String remote, int unordered, long token);

    static native long cancel(long client, long token);

    static native long close(long client, long flow);

    static native long reset(long client, long flow);

    static native long act(
            int op, long client, long flow, long number, byte[] data, int at, int len);

    static native long actDirect(
            int op, long client, long flow, long number, ByteBuffer data, int at, int len);

    static native long requestCancel(long client, long request);

    static native long fail(long client, long flow, long request, int code, String why);

    static native long waitEvent(long client, int timeoutMs, long[] out);

    static native byte[] take(long client, long flow, long offset, long len, int head, long[] out);

    static native long takeDirect(
            long client, long flow, long offset, long len, int head, ByteBuffer into, int at);

    static native byte[] peer(long client, long flow, long[] out);

    static native String lastError();

    static native String version();
}
