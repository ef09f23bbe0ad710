package dev.kvorum;

import java.io.IOException;
import java.time.Duration;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Reads entities in the order of their keys. An interrupted stream continues behind its last key, at
 * the next node. Close it if you leave it early. It is for one thread, and for one loop.
 *
 * <pre>{@code
 * try (var scan = kvorum.scan(new ScanOptions().prefix("user/"))) {
 *     for (Entity entity : scan) …
 * }
 * }</pre>
 */
public final class Scan implements Iterator<Entity>, Iterable<Entity>, AutoCloseable {
    private final Kvorum client;
    /** What is still to be read. */
    private final ScanOptions rest;
    private final Duration silenceMax;
    private final String traceparent;
    /** The search for a node since the last entity; none if there was none. */
    private Failover failover;
    private Answer answer;
    private Lines lines;
    private Entity next;
    private long left;
    private boolean isEnded;

    Scan(Kvorum client, ScanOptions rest, Duration silenceMax, String traceparent) {
        this.client = client;
        this.rest = rest;
        this.silenceMax = silenceMax;
        this.traceparent = traceparent;
        isEnded = rest.isEmpty();
        left = rest.limit;
    }

    /**
     * Whether there is another entity.
     *
     * @throws KvorumException if no node can continue the scan
     */
    @Override
    public boolean hasNext() {
        failover = null;
        while (next == null && !isEnded) {
            if (answer == null) open();
            try {
                next = read();
                if (next == null) end();
            } catch (IOException | InterruptedException | IllegalArgumentException cut) {
                resume(cut);
            }
        }
        return next != null;
    }

    @Override
    public Entity next() {
        if (!hasNext()) throw new NoSuchElementException();
        Entity entity = next;
        next = null;
        return entity;
    }

    @Override
    public Iterator<Entity> iterator() {
        return this;
    }

    /** The rest of the entities as a stream, which closes the scan when it is closed. */
    public Stream<Entity> stream() {
        int ordered = Spliterator.ORDERED | Spliterator.NONNULL;
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(this, ordered), false).onClose(this::close);
    }

    @Override
    public void close() {
        end();
        next = null;
    }

    private void end() {
        isEnded = true;
        closeAnswer();
    }

    private void closeAnswer() {
        if (answer != null) answer.close();
        answer = null;
    }

    private void open() {
        var request = new Request("GET", rest.query(false));
        request.headers.put("Accept", Request.LINES_TYPE);
        request.isStream = true;
        request.attemptMax = silenceMax;
        request.traceparent = traceparent;
        if (failover == null) failover = client.failover(rest.isOfNode);
        answer = failover.ask(request);
        lines = new Lines(answer.stream, silenceMax);
    }

    /** The next entity of the present stream; none at its end. */
    private Entity read() throws IOException, InterruptedException {
        Map<String, Object> line = lines.next();
        if (line == null) return null;
        byte[] key = Lines.bytes(line, "key");
        long version = Lines.version(line);
        if (key == null || version == 0) throw new IOException("a line has no key or no version");
        if (!rest.covers(key)) throw new IOException("a key is out of order");
        byte[] value = rest.omitsValues ? null : Lines.bytes(line, "value");
        rest.goBehind(key);
        if (rest.limit > 0) left--;
        return new Entity(key, value, version, null, Answer.instant(Problem.text(line, "expires")), false);
    }

    /** Prepares to continue behind the last key, at the next node. */
    private void resume(Exception cut) {
        Nodes.Node node = answer.node;
        closeAnswer();
        if (rest.limit > 0 && left == 0) {
            isEnded = true;
            return;
        }
        rest.limit = left;
        client.nodes().failed(node, System.nanoTime());
        if (failover == null) {
            failover = client.failover(rest.isOfNode);
            failover.askLast(node);
        }
        failover.note(new Request("GET", rest.query(false)), Failed.unanswered(node, cut));
    }
}
