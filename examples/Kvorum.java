// A client of Kvorum in Java (17 or newer) with the standard library. README.md says what to
// keep when you copy it.
//
// var kvorum = new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081");
// var answer = kvorum.send("PUT", Kvorum.entity(key) + "&replicas=2/3", value);
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;

/** Asks one of its nodes. */
class Kvorum {
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(3)).build();
    private final String token = System.getenv("KVORUM_TOKEN");
    private final String[] nodes;
    private volatile int first;

    Kvorum(String... nodes) { this.nodes = nodes; }

    /** The target of requests for a key, of which all bytes may be escaped. Append what else they ask. */
    static String entity(byte[] key) {
        return "/v0/entity?id=" + HexFormat.of().withPrefix("%").formatHex(key);
    }

    /**
     * Asks the node that answered last. If it fails, the next one is asked: always if nothing was done,
     * for a read also otherwise. From 300 on the status is that of a failure, and the body is the
     * problem as JSON: its `replicas` say what became of it at each replica. With "If-Match" and an ETag,
     * or "If-None-Match" and "*" as headers, a write has the status 412 if the key has something else.
     */
    HttpResponse<byte[]> send(String method, String target, byte[] body, String... headers)
            throws IOException, InterruptedException {
        int begin = first, last = begin + nodes.length - 1;
        for (int number = begin; ; number++) {
            String node = nodes[number % nodes.length];
            var request = HttpRequest.newBuilder(URI.create(node + target))
                .timeout(Duration.ofSeconds(5)).method(method, HttpRequest.BodyPublishers.ofByteArray(body))
                .header("Content-Type", "application/x-ndjson"); // Only a batch needs it.
            if (headers.length > 0) request.headers(headers);
            if (token != null) request.header("Authorization", "Bearer " + token);
            HttpResponse<byte[]> answer = null;
            IOException failure = null;
            boolean isSent = true;
            try {
                answer = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
                if (!isOfNode(answer, method, target))
                    throw new IOException(node + " is no Kvorum node: status " + answer.statusCode());
                if (!List.of(500, 503, 504).contains(answer.statusCode())) return answer;
                isSent = answer.statusCode() != 503 && !isNotApplied(answer);
            } catch (IOException error) {
                failure = error;
                isSent = !(error instanceof ConnectException || error instanceof HttpConnectTimeoutException);
            }
            first = (number + 1) % nodes.length;
            if (number == last || isSent && !method.equals("GET")) {
                if (failure != null) throw failure;
                return answer;
            }
        }
    }

    /** A conditional write that has not happened and never will. */
    private static boolean isNotApplied(HttpResponse<byte[]> answer) {
        return new String(answer.body(), StandardCharsets.UTF_8).contains("\"outcome\":\"not-applied\"");
    }

    /** A proxy, or another server, may answer 200 to anything. */
    private static boolean isOfNode(HttpResponse<byte[]> answer, String method, String target) {
        int success = switch (method) { case "PUT" -> 201; case "DELETE" -> 202; default -> 200; };
        boolean namesVersion = answer.headers().firstValue("Kvorum-Version").isPresent();
        if (answer.statusCode() == success) return namesVersion || !target.startsWith("/v0/entity?");
        return answer.headers().firstValue("Content-Type").orElse("").startsWith("application/problem+json")
            && new String(answer.body(), StandardCharsets.UTF_8).contains("\"type\":\"urn:kvorum:problem:");
    }
}
