package dev.kvorum;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Says which node is asked next: the one that answered last, and then the others in their order.
 * Nodes that lately failed are skipped for a while, which means that they are asked last.
 */
final class Nodes {
    static final Duration SKIP_FIRST = Duration.ofSeconds(1);
    static final Duration SKIP_MAX = Duration.ofSeconds(30);

    /** A node. The lock of the list guards what changes. */
    static final class Node {
        final String url;
        private final int index;
        private long skippedUntil;
        private boolean isSkipped;
        private int failures;

        private Node(String url, int index) {
            this.url = url;
            this.index = index;
        }

        private void skip(long now, Duration duration) {
            isSkipped = true;
            skippedUntil = now + (duration.compareTo(SKIP_MAX) < 0 ? duration : SKIP_MAX).toNanos();
        }
    }

    private final List<Node> nodes = new ArrayList<>();
    private int first;

    Nodes(List<String> urls) {
        for (String url : urls) nodes.add(new Node(url, nodes.size()));
    }

    /** The node of the first URL. */
    Node firstListed() {
        return nodes.get(0);
    }

    /** All nodes in the order in which to ask them now, a time of {@code System.nanoTime}. */
    synchronized List<Node> round(long now) {
        var ready = new ArrayList<Node>();
        var skipped = new ArrayList<Node>();
        for (int place = 0; place < nodes.size(); place++) {
            Node node = nodes.get((first + place) % nodes.size());
            (node.isSkipped && node.skippedUntil - now > 0 ? skipped : ready).add(node);
        }
        ready.addAll(skipped);
        return ready;
    }

    /** Notes that a node has answered. With success it is asked first from now on. */
    synchronized void answered(Node node, boolean isSuccess) {
        node.failures = 0;
        node.isSkipped = false;
        if (isSuccess) first = node.index;
    }

    /** Notes that a node gave no answer. */
    synchronized void failed(Node node, long now) {
        node.skip(now, SKIP_FIRST.multipliedBy(1L << Math.min(node.failures, 10)));
        node.failures++;
    }

    /** Notes that a node wants no request for some time. */
    synchronized void busy(Node node, long now, Duration retryAfter) {
        node.skip(now, retryAfter);
    }
}
