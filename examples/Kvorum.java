// A client of Kvorum in Java (17 or newer) with the standard library. README.md says what to
// keep when you copy it.
//
// var kvorum = new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081");
// var answer = kvorum.send("PUT", Kvorum.entity(key) + "&replicas=2/3", value);
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.HexFormat;

/** Asks its nodes in turn. */
class Kvorum {
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String token = System.getenv("KVORUM_TOKEN");
    private final String[] nodes;

    Kvorum(String... nodes) { this.nodes = nodes; }

    /** The target of requests for a key, of which all bytes may be escaped. Append what else they ask. */
    static String entity(byte[] key) {
        return "/v0/entity?id=" + HexFormat.of().withPrefix("%").formatHex(key);
    }

    /**
     * Asks a node. A read goes on to the next one if it gets no answer, or 503. From 300 on the status
     * is that of a failure, and the body is the problem as JSON: its `replicas` say what became of it
     * at each replica.
     */
    HttpResponse<byte[]> send(String method, String target, byte[] body)
            throws IOException, InterruptedException {
        for (int number = 0; ; number++) {
            boolean isLast = !method.equals("GET") || number + 1 == nodes.length;
            var request = HttpRequest.newBuilder(URI.create(nodes[number] + target))
                .timeout(Duration.ofSeconds(15)).method(method, HttpRequest.BodyPublishers.ofByteArray(body))
                .header("Content-Type", "application/x-ndjson"); // Only a batch needs it.
            if (token != null) request.header("Authorization", "Bearer " + token);
            try {
                var answer = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
                if (answer.statusCode() < 300 && !isOfNode(answer, method, target))
                    throw new IOException(nodes[number] + " is no Kvorum node");
                if (isLast || answer.statusCode() != 503) return answer;
            } catch (IOException error) {
                if (isLast) throw error;
            }
        }
    }

    /** A proxy, or another server, may answer 200 to anything. */
    private static boolean isOfNode(HttpResponse<byte[]> answer, String method, String target) {
        int success = switch (method) { case "PUT" -> 201; case "DELETE" -> 202; default -> 200; };
        boolean namesVersion = answer.headers().firstValue("Kvorum-Version").isPresent();
        return answer.statusCode() == success && (namesVersion || !target.startsWith("/v0/entity?"));
    }
}
