package dev.kvorum;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Every operation against three nodes. */
final class OperationTests {
    private static final byte[] ODD_KEY = "java €/+&%\0\u00ff".getBytes(StandardCharsets.ISO_8859_1);
    private static final Duration HOUR = Duration.ofHours(1);

    private OperationTests() {}

    static void allOperations() throws Exception {
        try (var cluster = new Cluster()) {
            try (var client = cluster.client(0)) {
                values(client);
                conditions(client);
                ttl(client);
                batch(client);
                scan(client);
                pages(client);
                where(client);
                aggregate(client);
                refusals(client);
                traces(client);
            }
            killedNode(cluster); // It is last, because it kills a node.
        }
    }

    static void tlsAndTokens() throws Exception {
        try (var cluster = new Cluster("--trust")) {
            var client = cluster.client(1);
            client.put(ODD_KEY, bytes("safe"), Options.NONE);
            cluster.order("stop 2");
            Check.equal(client.get(ODD_KEY, Options.NONE).orElseThrow().text(), "safe");

            String url = cluster.urls.get(0);
            var nobody = Kvorum.of(url).caFile(cluster.caFile).build();
            var refused = Check.thrown(RefusedException.class, () -> nobody.get("k"));
            Check.equal(List.of(refused.status(), refused.type()), List.of(401, "no-token"));
            var distrusting = Kvorum.of(url).tokenFile(cluster.tokenFile).build();
            var distrusted = Check.thrown(UnavailableException.class, () -> distrusting.put("k", bytes("v")));
            // There is no second round: it would fail in the same way.
            Check.equal(List.of(distrusted.status(), distrusted.attempts().size()), List.of(0, 1));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void values(Kvorum client) {
        var all = new Options().ack(2).from(3);
        for (byte[] value : List.of(bytes("text"), new byte[0], new byte[] {0, -1}, bytes("long".repeat(1 << 18)))) {
            Written written = client.put(ODD_KEY, value, all);
            Entity found = client.get(ODD_KEY, all).orElseThrow();
            Check.isTrue(Arrays.equals(found.value(), value), "the value is what was written");
            Check.equal(new Written(found.version(), found.etag()), written);
            Entity head = client.head(ODD_KEY, Options.NONE).orElseThrow();
            Check.equal(head, new Entity(ODD_KEY, null, written.version(), written.etag(), null, false));
            Entity same = client.get(ODD_KEY, new Options().ifNoneMatch(written.etag())).orElseThrow();
            Check.equal(same.notModified() && same.value() == null, true);
        }
        client.delete(ODD_KEY, Options.NONE);
        Check.equal(client.get(ODD_KEY, Options.NONE).isPresent(), false);
        Check.equal(client.head(ODD_KEY, Options.NONE).isPresent(), false);
    }

    private static void conditions(Kvorum client) {
        String key = "condition";
        byte[] value = bytes("value");
        var none = Check.thrown(ConflictException.class, () -> client.put(key, value, new Options().ifMatch("*")));
        Check.equal(none.version() == 0 && none.etag() == null, true);
        Written first = client.put(key, value, new Options().ifAbsent());
        var taken = Check.thrown(ConflictException.class, () -> client.put(key, value, new Options().ifAbsent()));
        Check.equal(new Written(taken.version(), taken.etag()), first);
        Written next = client.put(key, value, new Options().ifMatch(first.etag()));
        var stale = new Options().ifVersion(first.version());
        Check.thrown(ConflictException.class, () -> client.delete(key, stale));
        Check.thrown(ConflictException.class, () -> client.touch(key, stale));
        client.delete(key, new Options().ifVersion(next.version()));
    }

    private static void ttl(Kvorum client) {
        client.put("lease", bytes("mine"), new Options().ttl(HOUR));
        Entity before = client.get("lease").orElseThrow();
        client.touch("lease", new Options().ttl(HOUR.multipliedBy(2)).ifMatch(before.etag()));
        Entity after = client.get("lease").orElseThrow();
        Check.equal(after.text(), "mine");
        Instant later = before.expires().plus(HOUR.dividedBy(2));
        Check.isTrue(after.expires().isAfter(later), "it expires later");
        client.touch("lease", Options.NONE);
        Check.equal(client.head("lease").orElseThrow().expires(), null);
        Check.thrown(ConflictException.class, () -> client.touch("no such key", new Options().ttl(HOUR)));
    }

    private static void batch(Kvorum client) {
        byte[] odd = {'b', '/', -1};
        List<Result> results = client.batch(List.of(
            Operation.put("b/1", bytes("\"one\"\n"), new Options().ttl(HOUR)),
            Operation.put(odd, new byte[] {-2}, new Options().ifAbsent()),
            Operation.get("b/1"),
            Operation.get(odd),
            Operation.put("b/1", bytes("other"), new Options().ifAbsent()),
            Operation.touch("b/1", Options.NONE),
            Operation.get("b/none"),
            Operation.delete("b/1")));
        Check.equal(results.stream().map(Result::status).toList(), List.of(201, 201, 200, 200, 412, 201, 404, 202));
        Check.equal(new String(results.get(2).value(), StandardCharsets.UTF_8), "\"one\"\n");
        Check.equal(results.get(2).expires() != null, true);
        Check.equal(Arrays.equals(results.get(3).value(), new byte[] {-2}), true);
        var conflict = (ConflictException) results.get(4).error();
        Check.equal(conflict.version(), results.get(0).version());
        Check.equal(results.get(6).isOk() && results.get(6).value() == null, true);
        var tooLong = List.of(Operation.put("b", new byte[16 << 20]));
        Check.thrown(IllegalArgumentException.class, () -> client.batch(tooLong));
        Check.thrown(IllegalArgumentException.class, () -> Operation.delete("b", new Options().ifMatch("*")));
    }

    private static void scan(Kvorum client) {
        int count = 300;
        var puts = new ArrayList<Operation>();
        for (int i = 0; i < count; i++) puts.add(Operation.put(String.format("scan/%03d", i), bytes("" + i)));
        puts.add(Operation.put(new byte[] {'s', 'c', 'a', 'n', '/', -1}, new byte[] {-1}, Options.NONE));
        client.batch(puts).forEach(result -> Check.equal(result.error(), null));
        var found = new ArrayList<Entity>();
        try (var scan = client.scan(new ScanOptions().prefix("scan/"))) {
            for (Entity entity : scan) found.add(entity);
        }
        Check.equal(found.size(), count + 1);
        for (int i = 0; i < count; i++) Check.equal(found.get(i).text(), "" + i);
        Check.equal(client.count(new ScanOptions().prefix("scan/").ack(2).from(3)), count + 1L);
        var part = new ScanOptions().start("scan/100").end("scan/200").limit(3).withoutValues();
        try (var entities = client.scan(part).stream()) {
            var keys = entities.peek(entity -> Check.equal(entity.value(), null)).map(Entity::keyText).toList();
            Check.equal(keys, List.of("scan/100", "scan/101", "scan/102"));
        }
        try (var scan = client.scan(new ScanOptions().prefix("scan/").ofNode())) {
            scan.next(); // The connection is closed; the client goes on.
        }
        Check.equal(client.scan(new ScanOptions().start("b").end("a")).hasNext(), false);
    }

    private static void putOrders(Kvorum client) {
        client.batch(List.of(
            Operation.put("order/1", bytes("{\"country\":\"DE\",\"total\":120.5}")),
            Operation.put("order/2", bytes("{\"country\":\"FR\",\"total\":80}")),
            Operation.put("order/3", bytes("{\"country\":\"DE\",\"total\":310}")),
            Operation.put("order/4", bytes("{\"country\":\"FR\",\"total\":150}")),
            Operation.put("order/note", bytes("call back")))).forEach(result -> Check.equal(result.error(), null));
    }

    private static ScanOptions orders() {
        return new ScanOptions().prefix("order/");
    }

    private static void where(Kvorum client) {
        putOrders(client);
        String where = "value.total > 100";
        try (var entities = client.scan(orders().where(where).withoutValues()).stream()) {
            Check.equal(entities.map(Entity::keyText).toList(), List.of("order/1", "order/3", "order/4"));
        }
        Check.equal(client.count(orders().where("value.country == 'FR'")), 2L);
        Check.equal(client.count(orders().where("value.country == 'FR'").ofNode()), 2L);
        var wrong = new ScanOptions().where("value.total >");
        Check.equal(Check.thrown(RefusedException.class, () -> client.count(wrong)).status(), 400);
        Check.thrown(RefusedException.class, () -> client.scan(new ScanOptions().where("key")).hasNext());
    }

    private static void aggregate(Kvorum client) {
        putOrders(client);
        var functions = List.of(
            AggregateFunction.sum("value.total"), AggregateFunction.min("value.total"), AggregateFunction.max("version"));
        var options = orders().by("value.country", "value.total > 130").where("key != 'order/2'").ack(2).from(3);
        Aggregates found = client.aggregate(functions, options);
        Check.equal(List.of(found.keys(), found.matched(), found.ack(), found.from()), List.of(5L, 4L, 2, 3));
        var nothing = Arrays.asList((Object) null, null);
        Check.equal(
            found.groups().stream().map(Group::by).toList(),
            List.of(List.of("DE", false), List.of("DE", true), List.of("FR", true), nothing));
        long version = client.get("order/1").orElseThrow().version();
        Check.equal(found.groups().get(0), new Group(List.of("DE", false), 1, List.of(
            new Aggregate("sum", 120.5, 1), new Aggregate("min", 120.5, 1), new Aggregate("max", version, 1))));
        Check.equal(found.groups().get(3).aggregates().get(0), new Aggregate("sum", null, 0));
        Check.equal(
            client.aggregate(List.of(), orders().ofNode()),
            new Aggregates(5, 5, 0, 0, List.of(new Group(List.of(), 5, List.of()))));
        byte[] odd = {'o', '/', -1};
        client.put(odd, bytes("1"), Options.NONE);
        Check.equal(client.aggregate(List.of(), new ScanOptions().start(odd).end(new byte[] {'o', '/', -1, 0})).keys(), 1L);
        var wrong = List.of(AggregateFunction.sum("value +"));
        Check.equal(Check.thrown(RefusedException.class, () -> client.aggregate(wrong, orders())).status(), 400);
        Check.thrown(IllegalArgumentException.class, () -> client.count(new ScanOptions().by("key")));
    }

    private static void pages(Kvorum client) {
        Check.equal(client.replicas("k").size(), 3);
        Check.equal(client.status().get("version") instanceof String, true);
    }

    private static void refusals(Kvorum client) {
        var tooMany = new Options().ack(4).from(4);
        var refused = Check.thrown(RefusedException.class, () -> client.put("k", bytes("v"), tooMany));
        Check.equal(
            List.of(refused.status(), refused.type(), refused.attempts().size()), List.of(400, "bad-parameter", 1));
        List<Check.Body> wrong = List.of(
            () -> client.get(""),
            () -> new Options().ttl(Duration.ofMillis(1)),
            () -> new Options().ifMatch("no tag"),
            () -> client.get("k", new Options().ttl(HOUR)),
            () -> client.put("k", bytes("v"), new Options().ifMatch("*").ifAbsent()));
        for (var body : wrong) Check.thrown(IllegalArgumentException.class, body);
    }

    private static void traces(Kvorum client) {
        String id = "4bf92f3577b34da6a3ce929d0e0e4736";
        var options = new Options().ack(4).from(4).traceparent("00-" + id + "-00f067aa0ba902b7-01");
        var refused = Check.thrown(RefusedException.class, () -> client.get("k", options));
        Check.equal(refused.problem().trace(), id);
    }

    /** No operation fails while a node is killed, but that the outcome of writes may be unknown. */
    private static void killedNode(Cluster cluster) throws Exception {
        int workers = 4;
        int each = 100;
        var begun = new CountDownLatch(workers * each / 4);
        var pool = Executors.newFixedThreadPool(workers);
        var all = new ArrayList<Future<?>>();
        for (int worker = 0; worker < workers; worker++) {
            String prefix = "killed/" + worker + "/";
            all.add(pool.submit(() -> {
                var client = cluster.client(2);
                for (int i = 0; i < each; i++) {
                    writeAndRead(client, prefix + i);
                    begun.countDown();
                }
            }));
        }
        begun.await(60, TimeUnit.SECONDS);
        cluster.order("kill 3");
        for (var one : all) one.get();
        pool.shutdown();
        var client = cluster.client(2);
        long count = client.count(new ScanOptions().prefix("killed/"));
        Check.isTrue(count >= workers * (each - 1), "what was written is there: " + count);
        cluster.order("ready 3"); // It starts again by itself.
        cluster.order("stop 3");
        var three = new Options().ack(3).from(3);
        var receipt = Check.thrown(UnknownOutcomeException.class, () -> client.put("k", bytes("v"), three));
        Check.equal(List.of(receipt.status(), receipt.replicas().size()), List.of(504, 3));
        Check.isTrue(receipt.version() > 0, "the receipt names the version");
    }

    private static void writeAndRead(Kvorum client, String key) {
        try {
            client.put(key, bytes(key));
        } catch (UnknownOutcomeException unknown) {
            return;
        }
        Check.equal(client.get(key).orElseThrow().text(), key);
    }
}
