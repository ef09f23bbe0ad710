// A client of Kvorum in Java (17 or newer) with the standard library. README.md says what to
// keep when you copy it.
//
// var kvorum = new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081");
// kvorum.put("key".getBytes(), "value".getBytes(), "replicas=2/3", "ttl=60");
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;

/** Asks its nodes in turn. */
class Kvorum {
    /** The node did not do it. The message has the problem, with the outcome at each replica. */
    static class Failed extends RuntimeException {
        final int status;

        Failed(HttpResponse<byte[]> answer) {
            super(answer.statusCode() + ": " + new String(answer.body(), StandardCharsets.UTF_8));
            status = answer.statusCode();
        }
    }

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(5)).build();
    private final String token = System.getenv("KVORUM_TOKEN");
    private final String[] nodes;

    Kvorum(String... nodes) { this.nodes = nodes; }

    void put(byte[] key, byte[] value, String... query) throws IOException, InterruptedException {
        send("PUT", entity(key, query), value);
    }

    void delete(byte[] key, String... query) throws IOException, InterruptedException {
        send("DELETE", entity(key, query), new byte[0]);
    }

    Optional<byte[]> get(byte[] key, String... query) throws IOException, InterruptedException {
        try {
            return Optional.of(send("GET", entity(key, query), new byte[0]));
        } catch (Failed failed) {
            if (failed.status != 404) throw failed;
            return Optional.empty();
        }
    }

    /** A key is bytes, of which all may be escaped. */
    private static String entity(byte[] key, String... query) {
        String id = "id=" + HexFormat.of().withPrefix("%").formatHex(key);
        return "/v0/entity?" + (query.length == 0 ? id : id + "&" + String.join("&", query));
    }

    /** Asks a node. A read goes on to the next one if it gets no answer, or 503. */
    byte[] send(String method, String target, byte[] body)
            throws IOException, InterruptedException {
        for (int number = 0; ; number++) {
            boolean isLast = !method.equals("GET") || number + 1 == nodes.length;
            var request = HttpRequest.newBuilder(URI.create(nodes[number] + target))
                .timeout(Duration.ofSeconds(15)).method(method, BodyPublishers.ofByteArray(body))
                .header("Content-Type", "application/x-ndjson"); // Only a batch needs it.
            if (token != null) request.header("Authorization", "Bearer " + token);
            try {
                var answer = http.send(request.build(), BodyHandlers.ofByteArray());
                if (answer.statusCode() < 300) return answer.body();
                if (isLast || answer.statusCode() != 503) throw new Failed(answer);
            } catch (IOException error) {
                if (isLast) throw error;
            }
        }
    }
}
