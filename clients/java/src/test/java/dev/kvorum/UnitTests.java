package dev.kvorum;

import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Parts that need no server. */
final class UnitTests {
    private UnitTests() {}

    private static String order(Nodes nodes, long now) {
        return String.join("", nodes.round(now).stream().map(node -> node.url).toList());
    }

    static void skippedNodesAreAskedLast() {
        var nodes = new Nodes(List.of("a", "b", "c"));
        long now = System.nanoTime();
        long second = Nodes.SKIP_FIRST.toNanos();
        Check.equal(order(nodes, now), "abc");
        Nodes.Node b = nodes.round(now).get(1);
        nodes.answered(b, true);
        Check.equal(order(nodes, now), "bca");
        nodes.failed(b, now);
        Check.equal(order(nodes, now), "cab");
        Check.equal(order(nodes, now + second), "bca");
        nodes.failed(b, now);
        Check.equal(order(nodes, now + second), "cab");
        for (int i = 0; i < 50; i++) nodes.failed(b, now);
        Check.equal(order(nodes, now + Nodes.SKIP_MAX.toNanos()), "bca");
        nodes.busy(nodes.round(now).get(0), now, Duration.ofSeconds(5));
        Check.equal(order(nodes, now), "abc");
        nodes.answered(b, false);
        Check.equal(order(nodes, now), "bac");
    }

    static void pausesGrow() {
        for (int round = 0; round < 3; round++) {
            Duration base = Failover.BACKOFF_FIRST.multipliedBy(1L << round);
            Duration pause = Failover.pause(round, List.of());
            Check.isTrue(pause.compareTo(base.dividedBy(2)) >= 0 && pause.compareTo(base) <= 0, "half to all of " + base);
        }
        Check.isTrue(Failover.pause(40, List.of()).compareTo(Failover.BACKOFF_MAX) <= 0, "it is bounded");
    }

    static void jsonIsRead() throws Exception {
        var read = Json.object(Query.bytes(" {\"a\\u00e9\\n\":[1,-2.5e3,{}, [] ],\"b\":{\"c\":null,\"d\":true}, \"e\":\"\\\"x\"} "));
        var inner = new java.util.LinkedHashMap<String, Object>();
        inner.put("c", null);
        inner.put("d", true);
        Check.equal(read, Map.of("aé\n", List.of("1", "-2.5e3", Map.of(), List.of()), "b", inner, "e", "\"x"));
        var whole = new java.math.BigInteger("18446744073709551615");
        Check.equal(
            Json.objectWithNumbers(Query.bytes("{\"a\":[-7,9007199254740993,18446744073709551615,2.5,1e3,\"7\"]}")).get("a"),
            List.of(-7L, 9007199254740993L, whole, 2.5, 1000.0, "7"));
        Check.thrown(Json.MalformedException.class, () -> Json.objectWithNumbers(Query.bytes("{\"a\":--1}")));
        for (String wrong : List.of("", "[]", "{", "{}x", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12",
                "{\"a\":" + "[".repeat(100)))
            Check.thrown(Json.MalformedException.class, () -> Json.object(Query.bytes(wrong)));
        String odd = "\"\\\n\r\t\u0001é€";
        Check.equal(Json.object(Query.bytes("{\"a\":" + Json.quoted(odd) + "}")).get("a"), odd);
    }

    static void everyByteOfAKeySurvives() {
        var key = new byte[256];
        for (int i = 0; i < key.length; i++) key[i] = (byte) i;
        String query = new Query("/p").with("id", key).toString().substring("/p?id=".length());
        Check.isTrue(query.matches("([A-Za-z0-9]|%[0-9A-F]{2})*"), query);
        var decoded = new ArrayList<Integer>();
        for (int i = 0; i < query.length(); i++) {
            boolean isEscaped = query.charAt(i) == '%';
            decoded.add(isEscaped ? Integer.parseInt(query.substring(i + 1, i + 3), 16) : query.charAt(i));
            if (isEscaped) i += 2;
        }
        for (int i = 0; i < key.length; i++) Check.equal(decoded.get(i), i);
    }

    static void theFileOfATokenIsReadAgain() throws Exception {
        var file = Files.createTempFile("token", null);
        try {
            Files.writeString(file, "first\nanother line\n");
            var source = new TokenSource(null, file);
            Check.equal(source.current(), "first");
            Files.writeString(file, "second");
            Files.setLastModifiedTime(file, FileTime.fromMillis(1_000_000));
            Check.equal(source.current(), "second");
            Check.thrown(IllegalArgumentException.class, () -> new TokenSource("no token", null));
        } finally {
            Files.delete(file);
        }
    }
}
