// A client of Kvorum in Java (17 or newer), with the standard library. README.md beside it says what to keep.
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.*;
import javax.net.ssl.*;

/** Asks its nodes in turn: new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081"). */
class Kvorum {
    /** The nodes did not do it: the status, and the problem as JSON, with the receipt in "replicas". */
    static class Failed extends IOException {
        final int status;

        Failed(int status, String problem) {
            super(status + ": " + problem);
            this.status = status;
        }
    }

    private final HttpClient http;
    private final String[] nodes;

    Kvorum(String... nodes) throws IOException, GeneralSecurityException {
        this.nodes = nodes;
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(5));
        String authorities = System.getenv("KVORUM_CA");
        this.http = (authorities == null ? client : client.sslContext(trusting(authorities))).build();
    }

    /** Trusts the authorities in a file, rather than those of the system. */
    private static SSLContext trusting(String file) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = new FileInputStream(file)) {
            for (var each : CertificateFactory.getInstance("X.509").generateCertificates(pem)) store.setCertificateEntry("" + store.size(), each);
        }
        var factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        return context;
    }

    /** The parameters are as in a URL: "replicas=2/3&ttl=60", or "". */
    void put(byte[] key, byte[] value, String parameters) throws IOException, InterruptedException {
        send("PUT", entity(key, parameters), value);
    }

    void delete(byte[] key, String parameters) throws IOException, InterruptedException {
        send("DELETE", entity(key, parameters), new byte[0]);
    }

    Optional<byte[]> get(byte[] key, String parameters) throws IOException, InterruptedException {
        try {
            return Optional.of(send("GET", entity(key, parameters), new byte[0]));
        } catch (Failed failed) {
            if (failed.status != 404) throw failed;
            return Optional.empty();
        }
    }

    /** A key is bytes, of which all may be escaped. */
    private static String entity(byte[] key, String parameters) {
        return "/v0/entity?id=" + HexFormat.of().withPrefix("%").formatHex(key) + (parameters.isEmpty() ? "" : "&" + parameters);
    }

    /** Asks the nodes in turn. A write goes on to the next one only if it cannot have happened. */
    byte[] send(String method, String target, byte[] body) throws IOException, InterruptedException {
        IOException failure = new IOException("no nodes");
        for (String node : nodes) {
            var request = HttpRequest.newBuilder(URI.create(node + target)).timeout(Duration.ofSeconds(15))
                .header("Content-Type", "application/x-ndjson") // Only a batch needs it.
                .method(method, HttpRequest.BodyPublishers.ofByteArray(body));
            if (System.getenv("KVORUM_TOKEN") != null) request.header("Authorization", "Bearer " + System.getenv("KVORUM_TOKEN"));
            try {
                HttpResponse<byte[]> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
                if (answer.statusCode() < 300) return answer.body();
                failure = new Failed(answer.statusCode(), new String(answer.body(), StandardCharsets.UTF_8));
                if (answer.statusCode() != 503) throw failure;
            } catch (Failed failed) {
                throw failed;
            } catch (ConnectException | HttpConnectTimeoutException error) {
                failure = error;
            } catch (IOException error) {
                failure = error;
                if (!method.equals("GET")) throw failure;
            }
        }
        throw failure;
    }
}
