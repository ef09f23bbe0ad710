package dev.kvorum;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A batch on its way: reads the answer to each operation. */
final class Batch {
    private final List<Operation> operations;
    private final Request request;
    private final Failover failover;

    Batch(List<Operation> operations, Request request, Failover failover) {
        this.operations = operations;
        this.request = request;
        this.failover = failover;
    }

    /** Sends it until there is an answer; one with writes is not sent again once it may have begun. */
    List<Result> send(Nodes nodes) {
        while (true) {
            Answer answer = failover.ask(request);
            var results = new ArrayList<Result>();
            try {
                readAll(answer, results);
                return results;
            } catch (IOException | InterruptedException | IllegalArgumentException cut) {
                nodes.failed(answer.node, System.nanoTime());
                if (!request.isWrite) {
                    failover.note(request, Failed.unanswered(answer.node, cut));
                    continue;
                }
                if (cut instanceof InterruptedException) Thread.currentThread().interrupt();
                addMissing(results, new Attempt(answer.node.url, answer.status, null, cut));
                return results;
            } finally {
                answer.close();
            }
        }
    }

    private void readAll(Answer answer, List<Result> results) throws IOException, InterruptedException {
        var lines = new Lines(answer.stream, request.attemptMax);
        for (var line = lines.next(); line != null; line = lines.next()) {
            if (results.size() == operations.size()) throw new IOException("more answers than operations");
            results.add(resultOf(operations.get(results.size()), line, answer.node.url));
        }
        if (results.size() < operations.size()) throw new IOException("fewer answers than operations");
    }

    /** What is said of operations whose answer never came. */
    private void addMissing(List<Result> results, Attempt attempt) {
        var attempts = List.of(attempt);
        while (results.size() < operations.size()) {
            boolean isWrite = operations.get(results.size()).isWrite();
            KvorumException error = isWrite
                ? new UnknownOutcomeException(attempts, null)
                : new UnavailableException(attempts, null);
            results.add(new Result(0, 0, null, null, error));
        }
    }

    private static Result resultOf(Operation operation, Map<String, Object> line, String node) throws IOException {
        if (!(line.get("status") instanceof String text)) throw new IOException("a line has no status");
        int status = Integer.parseInt(text);
        long version = Lines.version(line);
        byte[] value = Lines.bytes(line, "value");
        var expires = Answer.instant(Problem.text(line, "expires"));
        if (!(line.get("problem") instanceof Map<?, ?> document)) return new Result(status, version, value, expires, null);
        Problem problem = Problem.of(document);
        var attempts = List.of(new Attempt(node, status, problem, null));
        return new Result(status, version, value, expires, errorOf(operation, status, version, problem, attempts));
    }

    private static KvorumException errorOf(
            Operation operation, int status, long version, Problem problem, List<Attempt> attempts) {
        if (problem != null && problem.type().equals("no-such-entity")) return null;
        Meaning meaning = problem == null ? Meaning.UNKNOWN : problem.meaning(status);
        return switch (meaning) {
            case CONFLICT -> new ConflictException(attempts, version, version == 0 ? null : Options.tagOf(version));
            case REFUSED -> new RefusedException(attempts);
            case UNKNOWN -> operation.isWrite()
                ? new UnknownOutcomeException(attempts, null)
                : new UnavailableException(attempts, null);
            case NOT_APPLIED -> new UnavailableException(attempts, null);
        };
    }
}
