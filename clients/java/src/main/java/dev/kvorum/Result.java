package dev.kvorum;

import java.time.Instant;

/**
 * What became of an operation of a batch.
 *
 * @param status that of the answer; 0 without one
 * @param version that of the key; 0 without one
 * @param value what a {@code get} has read; none without a value
 * @param expires when the value expires; none: never
 * @param error what the operation alone would have thrown; none if it succeeded, or found no value
 */
public record Result(int status, long version, byte[] value, Instant expires, KvorumException error) {
    /** Whether it succeeded, or found no value. */
    public boolean isOk() {
        return error == null;
    }
}
