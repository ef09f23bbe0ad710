package dev.kvorum;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;

/** Lines of JSON in the body of an answer. */
final class Lines {
    /** Above the longest value with escapes, and the longest receipt. */
    private static final int LINE_BYTES_MAX = 128 << 20;

    private final Body body;
    private final Duration silenceMax;
    private ByteBuffer piece = ByteBuffer.allocate(0);

    Lines(Body body, Duration silenceMax) {
        this.body = body;
        this.silenceMax = silenceMax;
    }

    /** The next line; none at the end of a whole body. */
    Map<String, Object> next() throws IOException, InterruptedException {
        var line = new ByteArrayOutputStream();
        while (true) {
            if (!piece.hasRemaining()) {
                piece = body.next(System.nanoTime() + silenceMax.toNanos());
                if (piece == null) {
                    piece = ByteBuffer.allocate(0);
                    if (line.size() > 0) throw new IOException("the answer ends within a line");
                    return null;
                }
            }
            if (takeUntilEnd(line)) return parsed(line.toByteArray());
            if (line.size() > LINE_BYTES_MAX) throw new IOException("a line is too long");
        }
    }

    /** Moves bytes of the piece to a line. Returns whether the line has come to its end. */
    private boolean takeUntilEnd(ByteArrayOutputStream line) {
        int begin = piece.position();
        int end = begin;
        while (end < piece.limit() && piece.get(end) != '\n') end++;
        byte[] part = new byte[end - begin];
        piece.get(part);
        line.writeBytes(part);
        if (!piece.hasRemaining()) return false;
        piece.get();
        return true;
    }

    private static Map<String, Object> parsed(byte[] line) throws IOException {
        try {
            return Json.object(line);
        } catch (Json.MalformedException foreign) {
            throw new IOException("a line is no JSON", foreign);
        }
    }

    /** The bytes of a field, which are in base64 if they are no text; none if there is no such field. */
    static byte[] bytes(Map<String, Object> line, String name) {
        String text = Problem.text(line, name);
        if (text != null) return Query.bytes(text);
        String base64 = Problem.text(line, name + "_base64");
        return base64 == null ? null : Base64.getDecoder().decode(base64);
    }

    /** The version in a line; 0 without one. */
    static long version(Map<String, Object> line) {
        String version = Problem.text(line, "version");
        return version == null ? 0 : Long.parseUnsignedLong(version);
    }
}
