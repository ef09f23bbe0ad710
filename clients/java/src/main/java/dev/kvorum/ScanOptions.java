package dev.kvorum;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** What a scan, a count or an aggregate covers: {@code new ScanOptions().prefix("user/").limit(10)}. */
public final class ScanOptions {
    static final byte[] FIRST_KEY = {0};

    byte[] start;
    byte[] end;
    byte[] prefix;
    String where;
    List<String> by = List.of();
    long limit;
    boolean isOfNode;
    boolean omitsValues;
    int ack;
    int from;
    Duration timeout;
    String traceparent;

    /** The first key. */
    public ScanOptions start(byte[] key) {
        start = Query.checkedKey(key).clone();
        return this;
    }

    /** The first key. */
    public ScanOptions start(String key) {
        return start(Query.bytes(key));
    }

    /** The key before which the scan ends. */
    public ScanOptions end(byte[] key) {
        end = Query.checkedKey(key).clone();
        return this;
    }

    /** The key before which the scan ends. */
    public ScanOptions end(String key) {
        return end(Query.bytes(key));
    }

    /** What all keys begin with. */
    public ScanOptions prefix(byte[] prefix) {
        this.prefix = Query.checkedKey(prefix).clone();
        return this;
    }

    /** What all keys begin with. */
    public ScanOptions prefix(String prefix) {
        return prefix(Query.bytes(prefix));
    }

    /** A condition, which the nodes evaluate: only entities that match it. */
    public ScanOptions where(String condition) {
        if (condition.isEmpty()) throw new IllegalArgumentException("a condition is not empty");
        where = condition;
        return this;
    }

    /** Groups of the entities that have the same values of these expressions. It is of an aggregate. */
    public ScanOptions by(String... expressions) {
        by = List.of(expressions);
        return this;
    }

    /** The greatest number of entities of a scan. */
    public ScanOptions limit(long limit) {
        if (limit < 1) throw new IllegalArgumentException("a limit is at least 1");
        this.limit = limit;
        return this;
    }

    /** Covers the keys of the node of the first URL only, and not those of the whole cluster. */
    public ScanOptions ofNode() {
        isOfNode = true;
        return this;
    }

    /** Reads keys and versions. */
    public ScanOptions withoutValues() {
        omitsValues = true;
        return this;
    }

    /** How many replicas of each key must answer. */
    public ScanOptions ack(int count) {
        ack = new Options().ack(count).ack;
        return this;
    }

    /** How many replicas the keys have for this request. */
    public ScanOptions from(int count) {
        from = new Options().from(count).from;
        return this;
    }

    /** How long no byte may come, in place of the scan timeout of the client. */
    public ScanOptions timeout(Duration timeout) {
        this.timeout = new Options().timeout(timeout).timeout;
        return this;
    }

    /** The header of W3C Trace Context, in place of that of the client. */
    public ScanOptions traceparent(String header) {
        traceparent = header;
        return this;
    }

    /** What takes a range. */
    enum Kind { SCAN, COUNT, AGGREGATE }

    /** The same with a start, and an end in place of the prefix. */
    ScanOptions resolved(Kind kind) {
        if (prefix != null && (start != null || end != null))
            throw new IllegalArgumentException("a prefix stands instead of start and end");
        if (kind != Kind.SCAN && (limit > 0 || omitsValues))
            throw new IllegalArgumentException("only a scan has a limit and values");
        if (kind != Kind.AGGREGATE && !by.isEmpty())
            throw new IllegalArgumentException("only an aggregate has groups");
        var resolved = new ScanOptions();
        resolved.start = prefix != null ? prefix : start != null ? start : FIRST_KEY;
        resolved.end = prefix != null ? endOfPrefix(prefix) : end;
        resolved.where = where;
        resolved.by = by;
        resolved.limit = limit;
        resolved.isOfNode = isOfNode;
        resolved.omitsValues = omitsValues;
        resolved.ack = ack;
        resolved.from = from;
        resolved.timeout = timeout;
        resolved.traceparent = traceparent;
        return resolved;
    }

    /** The first key behind all that have a prefix; none if there is none. */
    private static byte[] endOfPrefix(byte[] prefix) {
        int length = prefix.length;
        while (length > 0 && prefix[length - 1] == (byte) 0xff) length--;
        if (length == 0) return null;
        byte[] end = Arrays.copyOf(prefix, length);
        end[length - 1]++;
        return end;
    }

    boolean isEmpty() {
        return end != null && Arrays.compareUnsigned(end, start) <= 0;
    }

    boolean covers(byte[] key) {
        return Arrays.compareUnsigned(key, start) >= 0 && (end == null || Arrays.compareUnsigned(key, end) < 0);
    }

    /** Continues behind a key. */
    void goBehind(byte[] key) {
        start = Arrays.copyOf(key, key.length + 1);
    }

    Query query(boolean isCount) {
        var query = new Query("/v0/entities").with("start", start);
        if (end != null) query.with("end", end);
        if (where != null) query.with("where", where);
        if (limit > 0) query.with("limit", Long.toString(limit));
        if (omitsValues) query.with("values", "omit");
        if (isCount) query.with("count", "only");
        return isOfNode ? query : query.with("scope", "cluster").withReplicas(ack, from);
    }

    /** The body of an aggregate. */
    String question(List<AggregateFunction> functions) {
        var text = new StringBuilder("{").append(Json.bytes("start", start));
        if (end != null) text.append(',').append(Json.bytes("end", end));
        if (where != null) text.append(",\"where\":").append(Json.quoted(where));
        if (!isOfNode) text.append(",\"scope\":\"cluster\"");
        if (!isOfNode && ack > 0) text.append(",\"ack\":").append(ack);
        if (!isOfNode && from > 0) text.append(",\"from\":").append(from);
        text.append(by.stream().map(Json::quoted).collect(Collectors.joining(",", ",\"by\":[", "]")));
        return text.append(functions.stream().map(AggregateFunction::json)
            .collect(Collectors.joining(",", ",\"aggregates\":[", "]}"))).toString();
    }
}
