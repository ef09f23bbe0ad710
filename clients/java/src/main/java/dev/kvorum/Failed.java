package dev.kvorum;

import java.io.IOException;
import java.net.http.HttpHeaders;
import java.time.Duration;

/** An attempt without success. It is thrown from where it is met to the choice of the next node. */
final class Failed extends Exception {
    private static final long serialVersionUID = 1;

    final transient Attempt attempt;
    final transient Meaning meaning;
    final transient Answer answer;
    /** Whether the same node would fail in the same way. */
    final boolean isLasting;

    private Failed(Attempt attempt, Meaning meaning, Answer answer, boolean isLasting) {
        super(null, attempt.cause(), false, false);
        this.attempt = attempt;
        this.meaning = meaning;
        this.answer = answer;
        this.isLasting = isLasting;
    }

    /** Nothing was sent. */
    static Failed notSent(Nodes.Node node, Exception cause, boolean isLasting) {
        return new Failed(new Attempt(node.url, 0, null, cause), Meaning.NOT_APPLIED, null, isLasting);
    }

    /** There was no whole answer. */
    static Failed unanswered(Nodes.Node node, Exception cause) {
        return new Failed(new Attempt(node.url, 0, null, cause), Meaning.UNKNOWN, null, false);
    }

    /** The answer is none of a node. */
    static Failed foreign(Answer answer, String what) {
        var cause = new IOException("this is no answer of a Kvorum node: " + what);
        return new Failed(new Attempt(answer.node.url, answer.status, null, cause), Meaning.UNKNOWN, answer, false);
    }

    /** A node answered with a problem. */
    static Failed ofProblem(Answer answer, Problem problem) {
        var attempt = new Attempt(answer.node.url, answer.status, problem, null);
        return new Failed(attempt, problem.meaning(answer.status), answer, false);
    }

    boolean isInterrupted() {
        return attempt.cause() instanceof InterruptedException;
    }

    /** How long the node wants no request; zero if it does not say. */
    Duration retryAfter() {
        return answer != null && answer.status == 503 && attempt.problem() != null ? answer.retryAfter() : Duration.ZERO;
    }

    HttpHeaders headers() {
        return answer.headers;
    }
}
