package dev.kvorum;

import java.util.List;

/**
 * A write may have taken effect, or may still. It was not repeated: a repeat is a new write, which
 * also replaces what others have written meanwhile.
 */
public final class UnknownOutcomeException extends KvorumException {
    private static final long serialVersionUID = 1;

    UnknownOutcomeException(List<Attempt> attempts, Throwable cause) {
        super("the write may have taken effect, or may still", attempts, cause);
    }

    /** The version of the attempt, if the receipt names it; otherwise 0. */
    public long version() {
        return problem() == null ? 0 : problem().timestamp();
    }

    /** The receipt: what became of the write at each replica. Empty if there is none. */
    public List<Replica> replicas() {
        return problem() == null ? List.of() : problem().replicas();
    }
}
