package dev.kvorum;

/** An operation of a batch. Conditions are {@code ifVersion}, {@code ifAbsent}, or the ETag of a version. */
public final class Operation {
    final Options.Kind kind;
    private final String line;

    private Operation(Options.Kind kind, byte[] key, byte[] value, Options options) {
        this.kind = kind;
        options.checkedFor(kind);
        if (options.timeout != null || options.traceparent != null || options.ack > 0 || options.from > 0)
            throw new IllegalArgumentException("the options of requests are for the whole batch");
        String op = kind == Options.Kind.TOUCH ? "put" : kind.name().toLowerCase();
        var text = new StringBuilder("{\"op\":\"").append(op).append('"');
        text.append(',').append(Json.bytes("key", Query.checkedKey(key)));
        if (value != null) text.append(',').append(Json.bytes("value", value));
        if (kind == Options.Kind.TOUCH) text.append(",\"touch\":true");
        if (options.ttlSeconds > 0) text.append(",\"ttl\":").append(options.ttlSeconds);
        if (options.ifAbsent) text.append(",\"if_absent\":true");
        if (options.ifMatch != null)
            text.append(",\"if_version\":\"").append(Long.toUnsignedString(options.versionOfIfMatch())).append('"');
        line = text.append("}\n").toString();
    }

    String line() {
        return line;
    }

    boolean isWrite() {
        return kind != Options.Kind.GET;
    }

    /** Gives a key a value. */
    public static Operation put(byte[] key, byte[] value, Options options) {
        return new Operation(Options.Kind.PUT, key, value, options);
    }

    /** Gives a key a value. */
    public static Operation put(String key, byte[] value, Options options) {
        return put(Query.bytes(key), value, options);
    }

    /** Gives a key a value. */
    public static Operation put(String key, byte[] value) {
        return put(key, value, Options.NONE);
    }

    /** Reads a key. */
    public static Operation get(byte[] key) {
        return new Operation(Options.Kind.GET, key, null, Options.NONE);
    }

    /** Reads a key. */
    public static Operation get(String key) {
        return get(Query.bytes(key));
    }

    /** Removes the value of a key. */
    public static Operation delete(byte[] key, Options options) {
        return new Operation(Options.Kind.DELETE, key, null, options);
    }

    /** Removes the value of a key. */
    public static Operation delete(String key, Options options) {
        return delete(Query.bytes(key), options);
    }

    /** Removes the value of a key. */
    public static Operation delete(String key) {
        return delete(key, Options.NONE);
    }

    /** Changes when a value expires. */
    public static Operation touch(byte[] key, Options options) {
        return new Operation(Options.Kind.TOUCH, key, null, options);
    }

    /** Changes when a value expires. */
    public static Operation touch(String key, Options options) {
        return touch(Query.bytes(key), options);
    }
}
