package dev.kvorum;

import java.util.List;

/** The request is wrong, or may not be served. */
public final class RefusedException extends KvorumException {
    private static final long serialVersionUID = 1;

    RefusedException(List<Attempt> attempts) {
        super("refused", attempts, null);
    }

    /** The type of the problem, such as {@code bad-parameter}. */
    public String type() {
        return problem().type();
    }
}
