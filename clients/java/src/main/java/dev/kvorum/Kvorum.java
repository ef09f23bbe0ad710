package dev.kvorum;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * A client of Kvorum, a replicated key-value store. It may be used by many threads.
 *
 * <pre>{@code
 * var kvorum = Kvorum.of("http://10.0.0.5:8080", "http://10.0.0.6:8080").build();
 * kvorum.put("user/1", value, new Options().ttl(Duration.ofHours(1)));
 * Optional<Entity> entity = kvorum.get("user/1");
 * }</pre>
 *
 * <p>A client asks one node, and the next one if that fails. It never repeats a write that may have taken
 * effect: such a write ends with an {@link UnknownOutcomeException}. Wrong arguments are an
 * {@link IllegalArgumentException}, and nothing is sent. A thread that is interrupted ends its operation
 * with an {@link UnknownOutcomeException} if that is a write that was sent, or else with an
 * {@link UnavailableException}; its interrupt flag is set.
 *
 * <p>Each operation on a key takes it as text, which is sent as UTF-8, or as bytes.
 */
public final class Kvorum implements AutoCloseable {
    private static final int BATCH_BYTES_MAX = 16 << 20;

    private final Builder settings;
    private final Nodes nodes;
    private final Transport transport;
    private volatile boolean isClosed;

    private Kvorum(Builder settings) {
        this.settings = settings;
        nodes = new Nodes(settings.urls);
        transport = new Transport(
            settings.connectTimeout,
            settings.caFile == null ? null : Authorities.contextOf(settings.caFile),
            settings.connections,
            new TokenSource(settings.token, settings.tokenFile),
            nodes);
    }

    /** The options of a client of the nodes at these URLs: {@code http://HOST:PORT} or {@code https://…}. */
    public static Builder of(String... urls) {
        return new Builder(List.of(urls));
    }

    /** Options of a client. */
    public static final class Builder {
        private final List<String> urls = new ArrayList<>();
        private String token;
        private Path tokenFile;
        private Path caFile;
        private Duration connectTimeout = Duration.ofSeconds(1);
        private Duration attemptTimeout = Duration.ofSeconds(5);
        private Duration timeout = Duration.ofSeconds(15);
        private Duration scanTimeout = Duration.ofSeconds(60);
        private int rounds = 4;
        private int connections = 64;
        private Supplier<String> traceparent = () -> null;

        private Builder(List<String> urls) {
            if (urls.isEmpty()) throw new IllegalArgumentException("no URL");
            for (String url : urls) this.urls.add(plain(url));
        }

        private static String plain(String text) {
            try {
                var url = new URI(text);
                boolean isHttp = "http".equals(url.getScheme()) || "https".equals(url.getScheme());
                boolean isPlain = url.getUserInfo() == null && url.getQuery() == null && url.getFragment() == null
                    && (url.getPath() == null || url.getPath().isEmpty() || url.getPath().equals("/"));
                if (isHttp && isPlain && url.getHost() != null) return url.getScheme() + "://" + url.getAuthority();
            } catch (URISyntaxException wrong) {
                throw new IllegalArgumentException(wrong);
            }
            throw new IllegalArgumentException("the URL of a node is http://HOST:PORT or https://HOST:PORT, not " + text);
        }

        /** The token by which the nodes know the client. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** A file whose first line is the token. It is read again when its modification time changes. */
        public Builder tokenFile(Path file) {
            tokenFile = file;
            return this;
        }

        /** A PEM file with the only authorities to trust. The default is those of the Java runtime. */
        public Builder caFile(Path file) {
            caFile = file;
            return this;
        }

        /** Bounds a connection. 1 s by default. */
        public Builder connectTimeout(Duration timeout) {
            connectTimeout = positive(timeout);
            return this;
        }

        /** Bounds one whole answer of one node. 5 s by default. A batch may take all of the timeout. */
        public Builder attemptTimeout(Duration timeout) {
            attemptTimeout = positive(timeout);
            return this;
        }

        /** Bounds a whole operation with all attempts and waits. 15 s by default. */
        public Builder timeout(Duration timeout) {
            this.timeout = positive(timeout);
            return this;
        }

        /** Stands for both in scans, counts and aggregates: how long no byte may come. 60 s by default. */
        public Builder scanTimeout(Duration timeout) {
            scanTimeout = positive(timeout);
            return this;
        }

        /** How many times all nodes are asked at most. 4 by default. */
        public Builder rounds(int count) {
            if (count < 1) throw new IllegalArgumentException("at least one round");
            rounds = count;
            return this;
        }

        /** How many requests run at a time. 64 by default; more wait. */
        public Builder connections(int count) {
            if (count < 1) throw new IllegalArgumentException("at least one connection");
            connections = count;
            return this;
        }

        /** Is called once for each operation, and gives the header traceparent or null. */
        public Builder traceparent(Supplier<String> header) {
            traceparent = header;
            return this;
        }

        private static Duration positive(Duration timeout) {
            return new Options().timeout(timeout).timeout;
        }

        /** Makes the client. It sends nothing. */
        public Kvorum build() {
            return new Kvorum(this);
        }
    }

    /** Refuses further operations. Idle connections close on their own. */
    @Override
    public void close() {
        isClosed = true;
    }

    /** Reads a key. Empty if it has no value. */
    public Optional<Entity> get(String key) {
        return get(key, Options.NONE);
    }

    /** Reads a key. Empty if it has no value. */
    public Optional<Entity> get(String key, Options options) {
        return get(Query.bytes(key), options);
    }

    /** Reads a key. Empty if it has no value. */
    public Optional<Entity> get(byte[] key, Options options) {
        return read(Options.Kind.GET, key, options);
    }

    /** Reads what {@code get} reads, without the value. */
    public Optional<Entity> head(String key) {
        return head(Query.bytes(key), Options.NONE);
    }

    /** Reads what {@code get} reads, without the value. */
    public Optional<Entity> head(byte[] key, Options options) {
        return read(Options.Kind.HEAD, key, options);
    }

    /** Gives a key a value. */
    public Written put(String key, byte[] value) {
        return put(key, value, Options.NONE);
    }

    /** Gives a key a value. */
    public Written put(String key, byte[] value, Options options) {
        return put(Query.bytes(key), value, options);
    }

    /** Gives a key a value. */
    public Written put(byte[] key, byte[] value, Options options) {
        return write(Options.Kind.PUT, key, value, options);
    }

    /** Keeps the value of a key and changes when it expires. */
    public Written touch(String key, Options options) {
        return touch(Query.bytes(key), options);
    }

    /**
     * Keeps the value of a key and changes when it expires: after the TTL, or never without one.
     *
     * @throws ConflictException if the key has no value
     */
    public Written touch(byte[] key, Options options) {
        return write(Options.Kind.TOUCH, key, new byte[0], options);
    }

    /** Removes the value of a key. It is no error if there is none. */
    public Written delete(String key) {
        return delete(key, Options.NONE);
    }

    /** Removes the value of a key. It is no error if there is none. */
    public Written delete(String key, Options options) {
        return delete(Query.bytes(key), options);
    }

    /** Removes the value of a key. It is no error if there is none. */
    public Written delete(byte[] key, Options options) {
        return write(Options.Kind.DELETE, key, new byte[0], options);
    }

    private Optional<Entity> read(Options.Kind kind, byte[] key, Options options) {
        Answer answer = ask(kind, kind == Options.Kind.GET ? "GET" : "HEAD", key, new byte[0], options);
        if (answer.status == 404) return Optional.empty();
        boolean isUnmodified = answer.status == 304;
        byte[] value = kind == Options.Kind.GET && !isUnmodified ? answer.content : null;
        return Optional.of(
            new Entity(key, value, answer.version(), answer.header("ETag"), answer.expires(), isUnmodified));
    }

    private Written write(Options.Kind kind, byte[] key, byte[] value, Options options) {
        Answer answer = ask(kind, kind == Options.Kind.DELETE ? "DELETE" : "PUT", key, value, options);
        return new Written(answer.version(), answer.header("ETag"));
    }

    private Answer ask(Options.Kind kind, String method, byte[] key, byte[] body, Options options) {
        options.checkedFor(kind);
        var query = options.entityQuery(Query.checkedKey(key), kind == Options.Kind.TOUCH);
        var request = new Request(method, query);
        if (options.ifMatch != null) request.headers.put("If-Match", options.ifMatch);
        if (options.ifAbsent) request.headers.put("If-None-Match", "*");
        if (options.ifNoneMatch != null) request.headers.put("If-None-Match", options.ifNoneMatch);
        request.body = body;
        request.isOfKey = true;
        return failover(false).ask(timed(request, options));
    }

    /** Sends many operations as one request. */
    public List<Result> batch(List<Operation> operations) {
        return batch(operations, Options.NONE);
    }

    /**
     * Sends many operations as one request. Each succeeds or fails alone: its result says so. Those on one
     * key take effect in their order.
     *
     * @throws KvorumException if there are no results at all
     */
    public List<Result> batch(List<Operation> operations, Options options) {
        options.checkedFor(Options.Kind.BATCH);
        if (operations.isEmpty()) return List.of();
        var lines = new StringBuilder();
        for (Operation operation : operations) lines.append(operation.line());
        var request = new Request("POST", new Query("/v0/batch").withReplicas(options.ack, options.from));
        request.body = Query.bytes(lines.toString());
        if (request.body.length > BATCH_BYTES_MAX)
            throw new IllegalArgumentException("a batch has at most " + BATCH_BYTES_MAX + " bytes of lines");
        request.headers.put("Content-Type", Request.LINES_TYPE);
        request.isWrite = operations.stream().anyMatch(Operation::isWrite);
        request.isStream = true;
        timed(request, options).attemptMax = request.timeout;
        return new Batch(operations, request, failover(false)).send(nodes);
    }

    /** Reads entities in the order of their keys. Nothing is sent before the first is asked for. */
    public Scan scan(ScanOptions options) {
        var rest = options.resolved(ScanOptions.Kind.SCAN);
        return new Scan(this, rest, silenceMax(rest), traceparent(rest.traceparent));
    }

    /** Counts the entities of a scan. */
    public long count(ScanOptions options) {
        var range = options.resolved(ScanOptions.Kind.COUNT);
        if (range.isEmpty()) return 0;
        var request = new Request("GET", range.query(true));
        request.attemptMax = silenceMax(range);
        request.traceparent = traceparent(range.traceparent);
        Map<String, Object> page = page(request, failover(range.isOfNode));
        try {
            return Long.parseUnsignedLong(String.valueOf(page.get("count")));
        } catch (NumberFormatException odd) {
            throw new UnavailableException(List.of(), odd);
        }
    }

    /**
     * Has the nodes count the entities of a scan, and compute functions of them, in the groups that
     * {@link ScanOptions#by} makes.
     */
    public Aggregates aggregate(List<AggregateFunction> functions, ScanOptions options) {
        var range = options.resolved(ScanOptions.Kind.AGGREGATE);
        var request = new Request("POST", new Query("/v0/aggregate"));
        request.headers.put("Content-Type", "application/json");
        request.body = Query.bytes(range.question(functions));
        request.attemptMax = silenceMax(range);
        request.traceparent = traceparent(range.traceparent);
        request.isAggregate = true;
        return failover(range.isOfNode).ask(request).aggregates;
    }

    /** The nodes in the order in which they are replicas of a key. */
    public List<Replica> replicas(String key) {
        return replicas(Query.bytes(key), Options.NONE);
    }

    /** The nodes in the order in which they are replicas of a key. */
    public List<Replica> replicas(byte[] key, Options options) {
        options.checkedFor(Options.Kind.PAGE);
        var request = new Request("GET", new Query("/v0/replicas").with("id", Query.checkedKey(key)));
        return Problem.replicasOf(page(timed(request, options), failover(false)));
    }

    /** The status of the node that answers, as JSON: maps, lists, strings, and numbers as text. */
    public Map<String, Object> status() {
        var request = new Request("GET", new Query("/v0/status"));
        return page(timed(request, Options.NONE), failover(false));
    }

    private static Map<String, Object> page(Request request, Failover failover) {
        request.isPage = true;
        return failover.ask(request).page;
    }

    private Request timed(Request request, Options options) {
        request.timeout = options.timeout != null ? options.timeout : settings.timeout;
        request.attemptMax = settings.attemptTimeout;
        request.traceparent = traceparent(options.traceparent);
        return request;
    }

    private String traceparent(String given) {
        return given != null ? given : settings.traceparent.get();
    }

    private Duration silenceMax(ScanOptions options) {
        return options.timeout != null ? options.timeout : settings.scanTimeout;
    }

    Failover failover(boolean isOfNode) {
        if (isClosed) throw new IllegalStateException("the client is closed");
        return new Failover(transport, nodes, settings.rounds, isOfNode);
    }

    Nodes nodes() {
        return nodes;
    }
}
