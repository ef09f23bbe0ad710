package dev.kvorum;

import java.util.List;

/** No node did what it was asked for, and nothing was written. */
public final class UnavailableException extends KvorumException {
    private static final long serialVersionUID = 1;

    UnavailableException(List<Attempt> attempts, Throwable cause) {
        super("no node could serve it", attempts, cause);
    }
}
