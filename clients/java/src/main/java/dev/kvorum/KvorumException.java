package dev.kvorum;

import java.util.List;
import java.util.stream.Collectors;

/** Why an operation did not succeed. Its kinds say what the caller can do. */
public abstract sealed class KvorumException extends RuntimeException
        permits UnavailableException, UnknownOutcomeException, ConflictException, RefusedException {
    private static final long serialVersionUID = 1;
    private static final int ATTEMPTS_SHOWN_MAX = 8;

    private final transient List<Attempt> attempts;

    KvorumException(String what, List<Attempt> attempts, Throwable cause) {
        super(what + reasons(attempts), cause != null ? cause : lastCause(attempts));
        this.attempts = List.copyOf(attempts);
    }

    private static String reasons(List<Attempt> attempts) {
        if (attempts.isEmpty()) return "";
        var shown = attempts.subList(Math.max(0, attempts.size() - ATTEMPTS_SHOWN_MAX), attempts.size());
        return shown.stream().map(Attempt::toString).collect(Collectors.joining("; ", ": ", ""));
    }

    private static Throwable lastCause(List<Attempt> attempts) {
        return attempts.isEmpty() ? null : attempts.get(attempts.size() - 1).cause();
    }

    /** What each attempt met. */
    public List<Attempt> attempts() {
        return attempts == null ? List.of() : attempts;
    }

    /** The status of the last answer; 0 if there was none. */
    public int status() {
        var answered = lastAnswered();
        return answered == null ? 0 : answered.status();
    }

    /** The problem of the last answer; none if there was none. */
    public Problem problem() {
        var answered = lastAnswered();
        return answered == null ? null : answered.problem();
    }

    private Attempt lastAnswered() {
        Attempt last = null;
        for (var attempt : attempts()) if (attempt.status() != 0) last = attempt;
        return last;
    }
}
