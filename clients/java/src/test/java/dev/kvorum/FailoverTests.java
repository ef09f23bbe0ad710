package dev.kvorum;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** What is repeated, against servers that answer as nodes and others do. */
final class FailoverTests {
    private static final byte[] VALUE = {'v'};
    private static final Duration SHORT = Duration.ofSeconds(1);

    private FailoverTests() {}

    static void aWriteGoesOnWhereNothingWasDone() throws Exception {
        for (String answer : List.of(
                Fake.OVERLOADED,
                Fake.problem(504, "not-enough-replicas", ",\"outcome\":\"not-applied\""),
                Fake.problem(408, "late-body", ""),
                Fake.problem(400, "broken-body", ""))) {
            try (var first = new Fake(answer); var second = new Fake(Fake.CREATED)) {
                var client = Kvorum.of(Fake.nobody(), first.url, second.url).build();
                Check.equal(client.put("k", VALUE), new Written(7, "\"a\""));
                Check.equal(List.of(first.requests().size(), second.requests().size()), List.of(1, 1));
            }
        }
    }

    /** A client that waits for a short time only if an answer never comes. */
    private static Kvorum patient(String answer, String... urls) {
        var client = Kvorum.of(urls);
        if (answer.equals(Fake.SILENT)) client.attemptTimeout(SHORT).timeout(SHORT);
        return client.build();
    }

    static void aWriteOfUnknownOutcomeIsSentOnce() throws Exception {
        String receipt = ",\"timestamp\":\"9\",\"replicas\":[{\"url\":\"u\",\"outcome\":\"timeout\"}]";
        for (String answer : List.of(
                Fake.CUT, Fake.SILENT, Fake.FOREIGN, Fake.PROXY, Fake.ENDLESS, Fake.HALF,
                Fake.problem(500, "odd", ""),
                Fake.problem(504, "not-enough-replicas", receipt))) {
            List<java.util.function.Function<Kvorum, Object>> writes = List.of(
                client -> client.put("k", VALUE),
                client -> client.delete("k"),
                client -> client.batch(List.of(Operation.get("k"), Operation.delete("k"))));
            for (var write : writes) {
                try (var first = new Fake(answer); var second = new Fake(Fake.CREATED)) {
                    var client = patient(answer, first.url, second.url);
                    var unknown = Check.thrown(UnknownOutcomeException.class, () -> write.apply(client));
                    if (unknown.status() == 504) {
                        Check.equal(unknown.version(), 9L);
                        Check.equal(unknown.replicas().get(0).outcome(), "timeout");
                    }
                    // A silent one may not have read it when the client gives up.
                    int sent = first.requests().size();
                    Check.isTrue(sent == 1 || answer.equals(Fake.SILENT) && sent == 0, "it is sent once");
                    Check.equal(second.requests().size(), 0);
                }
            }
        }
    }

    static void anAggregateGoesOnAtTheNextNode() throws Exception {
        for (String answer : List.of(Fake.CUT, Fake.FOREIGN, Fake.json("{\"keys\":1,\"matched\":1,\"groups\":[{}]}"))) {
            try (var first = new Fake(answer);
                    var second = new Fake(Fake.json("{\"keys\":1,\"matched\":1,\"groups\":[]}"))) {
                var client = Kvorum.of(Fake.nobody(), first.url, second.url).build();
                Check.equal(client.aggregate(List.of(), new ScanOptions()), new Aggregates(1, 1, 0, 0, List.of()));
            }
        }
    }

    static void aReadGoesOnAfterAnyFailure() throws Exception {
        for (String answer : List.of(
                Fake.CUT, Fake.SILENT, Fake.FOREIGN, Fake.PROXY, Fake.ENDLESS, Fake.HALF, Fake.OVERLOADED,
                Fake.problem(500, "odd", ""))) {
            try (var first = new Fake(answer); var second = new Fake(Fake.FOUND)) {
                var client = patient(answer, Fake.nobody(), first.url, second.url);
                var found = client.get("k", new Options().timeout(Duration.ofMinutes(1)));
                Check.equal(found.orElseThrow().text(), "value");
            }
        }
    }

    static void aRefusalIsFinal() throws Exception {
        try (var first = new Fake(Fake.problem(403, "no-right", "")); var second = new Fake(Fake.FOUND)) {
            var client = Kvorum.of(first.url, second.url).build();
            Check.equal(Check.thrown(RefusedException.class, () -> client.get("k")).type(), "no-right");
            Check.equal(second.requests().size(), 0);
        }
    }

    static void roundsAreBounded() throws Exception {
        try (var busy = new Fake(Fake.OVERLOADED)) {
            var client = Kvorum.of(busy.url).rounds(2).build();
            var error = Check.thrown(UnavailableException.class, () -> client.put("k", VALUE));
            Check.equal(List.of(error.status(), error.attempts().size(), busy.requests().size()), List.of(503, 2, 2));
        }
    }

    static void aTimeoutEndsTheWaits() throws Exception {
        var client = Kvorum.of(Fake.nobody()).rounds(1000).build();
        Check.thrown(UnavailableException.class, () -> client.get("k", new Options().timeout(SHORT)));
    }

    static void anInterruptedWriteIsUnknownOnceItIsSent() throws Exception {
        try (var quiet = new Fake(Fake.SILENT)) {
            var client = Kvorum.of(quiet.url).build();
            var error = new CompletableFuture<Throwable>();
            var writer = new Thread(() -> {
                try {
                    client.put("k", VALUE);
                } catch (KvorumException failure) {
                    Check.equal(Thread.interrupted(), true);
                    error.complete(failure);
                }
            });
            writer.start();
            quiet.waitFor(1);
            writer.interrupt();
            Check.equal(error.get() instanceof UnknownOutcomeException, true);
        }
    }

    static void aScanResumesBehindItsLastKey() throws Exception {
        try (var first = new Fake(Fake.scan(false, "a", "b"), Fake.scan(false));
                var second = new Fake(Fake.scan(false, "c"), Fake.scan(true, "d"))) {
            var client = Kvorum.of(first.url, second.url).build();
            var keys = new ArrayList<String>();
            for (Entity entity : client.scan(new ScanOptions().limit(9))) keys.add(entity.keyText());
            Check.equal(keys, List.of("a", "b", "c", "d"));
            Check.equal(first.requests().get(0), "GET /v0/entities?start=%00&limit=9&scope=cluster");
            Check.equal(first.requests().get(1), "GET /v0/entities?start=c%00&limit=6&scope=cluster");
            Check.equal(second.requests().get(0), "GET /v0/entities?start=b%00&limit=7&scope=cluster");
        }
    }

    static void aScanThatNoNodeServesEnds() throws Exception {
        var scan = Kvorum.of(Fake.nobody(), Fake.nobody()).rounds(2).build().scan(new ScanOptions());
        Check.equal(Check.thrown(UnavailableException.class, scan::hasNext).attempts().size(), 4);
    }

    static void aBatchThatIsCutKeepsWhatWasAnswered() throws Exception {
        String line = "{\"status\":201,\"version\":\"7\"}\n";
        String answer = Fake.scan(false) + Integer.toHexString(line.length()) + "\r\n" + line + "\r\n";
        try (var cut = new Fake(answer)) {
            var results = Kvorum.of(cut.url).build()
                .batch(List.of(Operation.put("a", VALUE), Operation.put("b", VALUE), Operation.get("c")));
            Check.equal(results.get(0), new Result(201, 7, null, null, null));
            Check.equal(results.get(1).error() instanceof UnknownOutcomeException, true);
            Check.equal(results.get(2).error() instanceof UnavailableException, true);
        }
    }

    static void moreRequestsThanConnectionsWait() throws Exception {
        try (var quiet = new Fake(Fake.SILENT)) {
            var client = Kvorum.of(quiet.url).connections(1).build();
            var holder = new Thread(() -> Check.thrown(UnknownOutcomeException.class, () -> client.put("k", VALUE)));
            holder.start();
            quiet.waitFor(1);
            Check.thrown(UnavailableException.class, () -> client.put("k", VALUE, new Options().timeout(SHORT)));
            holder.interrupt();
            holder.join();
            Check.equal(quiet.requests().size(), 1);
        }
    }
}
