package dev.kvorum;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** What is sent to one node after the other. */
final class Request {
    static final String LINES_TYPE = "application/x-ndjson";

    final String method;
    final String target;
    final Map<String, String> headers = new LinkedHashMap<>();
    /** The status of success. */
    final int success;
    byte[] body = {};
    /** Whether it is not repeated once it may have been done. */
    boolean isWrite;
    /** Whether success names a version. */
    boolean isOfKey;
    /** Whether the body of success is read piece by piece. */
    boolean isStream;
    /** Whether the content of success is one object. */
    boolean isPage;
    /** Whether the content of success is the answer to an aggregate. */
    boolean isAggregate;
    /** Bounds one whole answer; of a stream each silence. */
    Duration attemptMax;
    /** Bounds the whole operation; none for scans and counts. */
    Duration timeout;
    String traceparent;

    Request(String method, Query target) {
        this.method = method;
        this.target = target.toString();
        success = switch (method) {
            case "PUT" -> 201;
            case "DELETE" -> 202;
            default -> 200;
        };
        isWrite = success != 200;
    }

    boolean isHead() {
        return method.equals("HEAD");
    }

    /** Whether a status is that of success. */
    boolean expects(int status) {
        return status == success || status == 304 && headers.containsKey("If-None-Match") && !isWrite;
    }
}
