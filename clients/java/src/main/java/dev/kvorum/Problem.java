package dev.kvorum;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Why a node did not do what it was asked for (RFC 9457).
 *
 * @param type names the problem, such as {@code not-enough-replicas}
 * @param title the type in words
 * @param detail for people: its words may change
 * @param outcome of a conditional write: {@code not-applied}, {@code unknown} or none
 * @param timestamp the version of a write that ended without enough acks; otherwise 0
 * @param replicas the receipt: what became of the request at each replica
 * @param trace the ID of the trace of the request, if it has one
 */
public record Problem(
        String type,
        String title,
        String detail,
        String outcome,
        long timestamp,
        List<Replica> replicas,
        String trace) {
    private static final String TYPE_PREFIX = "urn:kvorum:problem:";

    /** That of an answer without a body, of which only the status is known. */
    static Problem ofHead(int status) {
        return new Problem(status == 404 ? "no-such-entity" : "", "", "", null, 0, List.of(), null);
    }

    /** Reads a problem document; none if it is not of a node. */
    static Problem of(Map<?, ?> document) {
        String type = text(document, "type");
        if (type == null || !type.startsWith(TYPE_PREFIX)) return null;
        String timestamp = text(document, "timestamp");
        return new Problem(
            type.substring(TYPE_PREFIX.length()),
            text(document, "title"),
            text(document, "detail"),
            text(document, "outcome"),
            timestamp == null ? 0 : Long.parseUnsignedLong(timestamp),
            replicasOf(document),
            text(document, "trace"));
    }

    /** The replicas in a page or a receipt. */
    static List<Replica> replicasOf(Map<?, ?> document) {
        var replicas = new ArrayList<Replica>();
        if (document.get("replicas") instanceof List<?> list)
            for (Object element : list)
                if (element instanceof Map<?, ?> of)
                    replicas.add(new Replica(text(of, "name"), text(of, "url"), text(of, "outcome")));
        return List.copyOf(replicas);
    }

    static String text(Map<?, ?> document, String name) {
        return document.get(name) instanceof String text ? text : null;
    }

    /** What the problem means for the request, with this status. */
    Meaning meaning(int status) {
        if (status == 503 || type.equals("late-body") || type.equals("broken-body")) return Meaning.NOT_APPLIED;
        if (status == 504 && "not-applied".equals(outcome)) return Meaning.NOT_APPLIED;
        if (status == 500 || status == 504) return Meaning.UNKNOWN;
        return status == 412 ? Meaning.CONFLICT : Meaning.REFUSED;
    }
}
