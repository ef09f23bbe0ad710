package dev.kvorum;

import java.util.List;

/** The condition of a write does not hold. Nothing was written. */
public final class ConflictException extends KvorumException {
    private static final long serialVersionUID = 1;

    private final long version;
    private final String etag;

    ConflictException(List<Attempt> attempts, long version, String etag) {
        super("nothing was written", attempts, null);
        this.version = version;
        this.etag = etag;
    }

    /** The version of the value that the key has; 0 if it has none. */
    public long version() {
        return version;
    }

    /** The tag of the value that the key has; none if it has no value, or the token may not read it. */
    public String etag() {
        return etag;
    }
}
