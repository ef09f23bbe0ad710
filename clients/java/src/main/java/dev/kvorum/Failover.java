package dev.kvorum;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** One operation's way over the nodes: who has been asked, and what each said. */
final class Failover {
    static final Duration BACKOFF_FIRST = Duration.ofMillis(100);
    static final Duration BACKOFF_MAX = Duration.ofSeconds(2);

    private final Transport transport;
    private final Nodes nodes;
    private final int rounds;
    private final boolean isOfNode;
    /** All attempts that were made. */
    private final List<Attempt> attempts = new ArrayList<>();
    /** Those of the present round. */
    private final List<Failed> failures = new ArrayList<>();
    /** The nodes that the round has not asked yet. */
    private Deque<Nodes.Node> pending;
    private int round;
    /** When the operation ends, a time of {@code System.nanoTime}; none for scans and counts. */
    private Long end;

    Failover(Transport transport, Nodes nodes, int rounds, boolean isOfNode) {
        this.transport = transport;
        this.nodes = nodes;
        this.rounds = rounds;
        this.isOfNode = isOfNode;
        beginRound();
    }

    private void beginRound() {
        failures.clear();
        pending = new ArrayDeque<>(isOfNode ? List.of(nodes.firstListed()) : nodes.round(System.nanoTime()));
    }

    /** Has the round ask a node behind all others. */
    void askLast(Nodes.Node node) {
        if (pending.remove(node)) pending.addLast(node);
    }

    /** Asks one node after the other until one answers. */
    Answer ask(Request request) {
        if (end == null && request.timeout != null) end = System.nanoTime() + request.timeout.toNanos();
        while (true) {
            Nodes.Node node = next();
            long deadline = System.nanoTime() + request.attemptMax.toNanos();
            try {
                return transport.send(node, request, end != null && end - deadline < 0 ? end : deadline);
            } catch (Failed failed) {
                note(request, failed);
                if (isOverIn(Duration.ZERO)) throw new UnavailableException(attempts, null);
            }
        }
    }

    private boolean isOverIn(Duration duration) {
        return end != null && end - System.nanoTime() <= duration.toNanos();
    }

    /** The node to ask, at the beginning of a new round after a pause. */
    private Nodes.Node next() {
        if (pending.isEmpty()) {
            if (round + 1 >= rounds || failures.stream().allMatch(failed -> failed.isLasting))
                throw new UnavailableException(attempts, null);
            Duration pause = pause(round, failures);
            if (isOverIn(pause)) throw new UnavailableException(attempts, null);
            sleep(pause);
            round++;
            beginRound();
        }
        return pending.removeFirst();
    }

    private void sleep(Duration pause) {
        try {
            Thread.sleep(pause.toMillis());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new UnavailableException(attempts, interrupted);
        }
    }

    /** Remembers what an attempt met. It returns if the next node may be asked. */
    void note(Request request, Failed failed) {
        attempts.add(failed.attempt);
        failures.add(failed);
        if (failed.isInterrupted()) Thread.currentThread().interrupt();
        switch (failed.meaning) {
            case CONFLICT ->
                throw new ConflictException(attempts, failed.answer.version(), failed.answer.header("ETag"));
            case REFUSED -> throw new RefusedException(attempts);
            case UNKNOWN -> {
                if (request.isWrite) throw new UnknownOutcomeException(attempts, null);
            }
            case NOT_APPLIED -> {}
        }
        if (failed.isInterrupted()) throw new UnavailableException(attempts, failed.attempt.cause());
    }

    /**
     * How long to wait after a round in which all nodes failed: longer with each round, and random, so that
     * the clients of a busy cluster do not all come back at once.
     */
    static Duration pause(int round, List<Failed> failures) {
        long backoff = Math.min(BACKOFF_FIRST.toNanos() << Math.min(round, 10), BACKOFF_MAX.toNanos());
        backoff = (long) (backoff * ThreadLocalRandom.current().nextDouble(0.5, 1));
        long askedFor = failures.isEmpty() ? 0 : BACKOFF_MAX.toNanos();
        for (Failed failed : failures) askedFor = Math.min(askedFor, failed.retryAfter().toNanos());
        return Duration.ofNanos(Math.max(backoff, askedFor));
    }
}
