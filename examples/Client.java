// A client in Java 17, with the standard library: java examples/Client.java [URL ...]
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;

class Client {
    static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static List<String> nodes;

    /** Asks the first node, and the next one if a node cannot be reached. */
    static HttpResponse<byte[]> send(String method, String path, byte[] body) throws Exception {
        for (String node : nodes) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(node + path))
                .timeout(Duration.ofSeconds(15))
                .header("Content-Type", "application/x-ndjson") // Only a batch needs it.
                .method(method, body.length == 0 ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(body))
                .build();
            try {
                return HTTP.send(request, BodyHandlers.ofByteArray());
            } catch (IOException error) {
                System.err.println(node + ": " + error + ": asking the next node");
            }
        }
        throw new IOException("no node can be reached");
    }

    /** A key is bytes: each of them may be escaped. */
    static String entity(byte[] key, int ack) {
        StringBuilder id = new StringBuilder();
        for (byte each : key) id.append(String.format("%%%02x", each));
        return "/v0/entity?id=" + id + "&ack=" + ack + "&from=" + nodes.size();
    }

    static void expect(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError("expected " + wanted + ", but the answer is " + found);
    }

    public static void main(String[] urls) throws Exception {
        nodes = urls.length > 0 ? List.of(urls) : List.of("http://127.0.0.1:8080");
        int majority = nodes.size() / 2 + 1;
        byte[] key = "java €/+&%\0ÿ".getBytes(StandardCharsets.ISO_8859_1), none = {};
        byte[] value = "\0 is a byte, too".getBytes(StandardCharsets.UTF_8);
        expect(send("PUT", entity(key, majority), value).statusCode(), 201);
        HttpResponse<byte[]> read = send("GET", entity(key, majority), none);
        expect(List.of(read.statusCode(), Arrays.equals(read.body(), value)), List.of(200, true));
        expect(send("DELETE", entity(key, majority), none).statusCode(), 202);
        expect(send("GET", entity(key, majority), none).statusCode(), 404);

        String lines = """
            {"op":"put","key":"java","value":"1"}
            {"op":"get","key":"java"}
            {"op":"delete","key":"java"}
            """;
        String batch = "/v0/batch?ack=" + majority + "&from=" + nodes.size();
        String answers = new String(send("POST", batch, lines.getBytes(StandardCharsets.UTF_8)).body(), StandardCharsets.UTF_8);
        // The library has no JSON: a program would read the lines with a package.
        expect(Pattern.compile("\"status\":(\\d+)").matcher(answers).results().map(found -> found.group(1)).toList(), List.of("201", "200", "202"));
        expect(answers.lines().toList().get(1).contains("\"value\":\"1\""), true);

        HttpResponse<byte[]> all = send("PUT", entity(key, nodes.size()), value); // All nodes must answer.
        if (all.statusCode() == 504) { // The receipt says what became of the write at each of them.
            String receipt = new String(all.body(), StandardCharsets.UTF_8);
            Pattern.compile("\"url\":\"([^\"]*)\",\"outcome\":\"([^\"]*)\"").matcher(receipt).results()
                .forEach(replica -> System.out.println(replica.group(1) + " " + replica.group(2)));
        }
        System.out.println("ok");
    }
}
