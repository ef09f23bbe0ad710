package dev.kvorum;

import java.nio.charset.StandardCharsets;
import java.time.Instant;

/**
 * A key and what it has.
 *
 * @param key bytes, which need not be text
 * @param value none if values were not wanted, or if it is not modified
 * @param version a number that names one write; compare it as unsigned
 * @param etag with its quotes; none in scans: condition a write by the version
 * @param expires when the value expires; none: never
 * @param notModified whether the value still has the tag of {@code ifNoneMatch}, and was not sent
 */
public record Entity(byte[] key, byte[] value, long version, String etag, Instant expires, boolean notModified) {
    /** The key as text. */
    public String keyText() {
        return new String(key, StandardCharsets.UTF_8);
    }

    /** The value as text. */
    public String text() {
        return new String(value, StandardCharsets.UTF_8);
    }
}
