package dev.kvorum;

import java.time.Duration;
import java.util.regex.Pattern;

/**
 * Options of an operation: {@code new Options().ttl(Duration.ofHours(1)).ifMatch(etag)}. One that the
 * operation does not have is an {@link IllegalArgumentException}.
 */
public final class Options {
    static final Options NONE = new Options();

    private static final String ANY = "*";
    private static final long TTL_SECONDS_MAX = 281_474_976_710L;
    private static final int REPLICAS_MAX = 255;
    private static final Pattern PLAIN_TAG = Pattern.compile("\"[!#-~]*\"");
    private static final int VERSION_DIGITS = 16;

    Duration timeout;
    String traceparent;
    int ack;
    int from;
    long ttlSeconds;
    String ifMatch;
    boolean ifAbsent;
    String ifNoneMatch;

    /** Bounds the whole operation, in place of the timeout of the client. */
    public Options timeout(Duration timeout) {
        if (timeout.isNegative() || timeout.isZero()) throw new IllegalArgumentException("a timeout is positive");
        this.timeout = timeout;
        return this;
    }

    /** The header of W3C Trace Context, in place of that of the client. */
    public Options traceparent(String header) {
        traceparent = header;
        return this;
    }

    /** How many replicas must answer. Without this and {@code from} the pair of the cluster applies. */
    public Options ack(int count) {
        ack = checkedCount(count);
        return this;
    }

    /** How many replicas the key has for this request. */
    public Options from(int count) {
        from = checkedCount(count);
        return this;
    }

    /** After how many whole seconds the value expires. */
    public Options ttl(Duration ttl) {
        boolean isWhole = ttl.getNano() == 0;
        if (!isWhole || ttl.getSeconds() < 1 || ttl.getSeconds() > TTL_SECONDS_MAX)
            throw new IllegalArgumentException("a TTL is whole seconds, at least one");
        ttlSeconds = ttl.getSeconds();
        return this;
    }

    /** A write takes effect only if the key has the value with this tag; {@code *}: if it has one. */
    public Options ifMatch(String etag) {
        if (!ANY.equals(etag)) checkTag(etag);
        ifMatch = etag;
        return this;
    }

    /** A write takes effect only if the key has the value with this version. */
    public Options ifVersion(long version) {
        return ifMatch(tagOf(version));
    }

    /** A put takes effect only if the key has no value. */
    public Options ifAbsent() {
        ifAbsent = true;
        return this;
    }

    /** A get returns the value only if it has another tag. */
    public Options ifNoneMatch(String etag) {
        checkTag(etag);
        ifNoneMatch = etag;
        return this;
    }

    /** What an operation may have. */
    enum Kind { GET, HEAD, PUT, TOUCH, DELETE, BATCH, PAGE }

    /** Requires that an operation has all these options. */
    Options checkedFor(Kind kind) {
        boolean isWrite = kind == Kind.PUT || kind == Kind.TOUCH || kind == Kind.DELETE;
        refuseIf(ttlSeconds > 0 && kind != Kind.PUT && kind != Kind.TOUCH, "ttl");
        refuseIf(ifMatch != null && !isWrite, "ifMatch");
        refuseIf(ifAbsent && kind != Kind.PUT, "ifAbsent");
        refuseIf(ifNoneMatch != null && kind != Kind.GET, "ifNoneMatch");
        refuseIf((ack > 0 || from > 0) && kind == Kind.PAGE, "ack or from");
        if (ifAbsent && ifMatch != null) throw new IllegalArgumentException("both ifMatch and ifAbsent");
        return this;
    }

    private static void refuseIf(boolean isWrong, String option) {
        if (isWrong) throw new IllegalArgumentException("this operation has no option " + option);
    }

    private static int checkedCount(int count) {
        if (count < 1 || count > REPLICAS_MAX)
            throw new IllegalArgumentException("ack and from are 1 to " + REPLICAS_MAX);
        return count;
    }

    private static void checkTag(String etag) {
        if (!PLAIN_TAG.matcher(etag).matches()) throw new IllegalArgumentException("no ETag: " + etag);
    }

    /** A tag by which conditions know a version. They do not compare its hash. */
    static String tagOf(long version) {
        return String.format("\"%016x-%016x\"", version, 0);
    }

    /** The version in {@code ifMatch}, which is the only condition of a line of a batch. */
    long versionOfIfMatch() {
        boolean isOfVersion = ifMatch.length() == 2 * VERSION_DIGITS + 3 && ifMatch.charAt(VERSION_DIGITS + 1) == '-';
        if (!isOfVersion)
            throw new IllegalArgumentException("ifMatch in a batch takes the ETag of a version, not " + ifMatch);
        return Long.parseUnsignedLong(ifMatch.substring(1, VERSION_DIGITS + 1), 16);
    }

    /** The target of an operation on a key. */
    Query entityQuery(byte[] key, boolean isTouch) {
        var query = new Query("/v0/entity").with("id", key).withReplicas(ack, from);
        if (isTouch) query.with("touch", "true");
        if (ttlSeconds > 0) query.with("ttl", Long.toString(ttlSeconds));
        return query;
    }
}
