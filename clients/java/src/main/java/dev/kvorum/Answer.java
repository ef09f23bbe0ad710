package dev.kvorum;

import java.net.http.HttpHeaders;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.Map;

/** That of a node: with success, or the 304 or 404 that a read may get. */
final class Answer {
    final Nodes.Node node;
    final int status;
    final HttpHeaders headers;
    /** The whole content; none of a stream. */
    byte[] content = {};
    /** The content of a page. */
    Map<String, Object> page;
    /** The content of the answer to an aggregate. */
    Aggregates aggregates;
    /** The body of a stream, which must be closed. */
    Body stream;
    /** Gives back the place of a stream among the requests of the client. */
    Runnable release = () -> {};

    Answer(Nodes.Node node, int status, HttpHeaders headers) {
        this.node = node;
        this.status = status;
        this.headers = headers;
    }

    String header(String name) {
        return headers.firstValue(name).orElse(null);
    }

    /** The version that it names; 0 without one. */
    long version() {
        return number("Kvorum-Version");
    }

    Instant expires() {
        return instant(header("Kvorum-Expires"));
    }

    static Instant instant(String text) {
        try {
            return text == null ? null : Instant.parse(text);
        } catch (DateTimeParseException unreadable) {
            return null;
        }
    }

    /** How long the node wants no request; zero if it does not say. */
    Duration retryAfter() {
        return Duration.ofSeconds(Math.max(0, Math.min(number("Retry-After"), 3600)));
    }

    private long number(String name) {
        try {
            return Long.parseUnsignedLong(headers.firstValue(name).orElse("0"));
        } catch (NumberFormatException odd) {
            return 0;
        }
    }

    private String mediaType() {
        return headers.firstValue("Content-Type").orElse("").split(";", 2)[0].trim().toLowerCase();
    }

    /** Whether it says where it ends. Otherwise an answer that was cut would look whole. */
    private boolean hasEnd(Request request) {
        return request.isHead() || status == 304
            || headers.firstValue("Content-Length").isPresent()
            || headers.firstValue("Transfer-Encoding").isPresent();
    }

    /** Whether the head is that of a node, with success. A proxy may answer 200 to anything. */
    boolean isSuccess(Request request) {
        if (!request.expects(status) || !hasEnd(request)) return false;
        if (request.isOfKey) return version() != 0;
        return !request.isStream || mediaType().equals(Request.LINES_TYPE);
    }

    /** The problem that it is; none if it is not a node's. */
    Problem problem(Request request) {
        if (!hasEnd(request) || !mediaType().equals("application/problem+json")) return null;
        if (request.isHead()) return Problem.ofHead(status);
        try {
            return Problem.of(Json.object(content));
        } catch (Json.MalformedException | NumberFormatException foreign) {
            return null;
        }
    }

    boolean isNoSuchEntity(Problem problem) {
        return status == 404 && problem.type().equals("no-such-entity");
    }

    void close() {
        stream.close();
        release.run();
    }
}
