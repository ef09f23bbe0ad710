package dev.kvorum;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A server whose answers are raw text. Each answer ends the connection. */
final class Fake implements AutoCloseable {
    static final String SILENT = "silent";
    static final String CUT = "";
    static final String CREATED =
        "HTTP/1.1 201 Created\r\nKvorum-Version: 7\r\nETag: \"a\"\r\nContent-Length: 0\r\n\r\n";
    static final String FOUND = "HTTP/1.1 200 OK\r\nKvorum-Version: 7\r\nContent-Length: 5\r\n\r\nvalue";
    static final String HALF = "HTTP/1.1 200 OK\r\nKvorum-Version: 7\r\nContent-Length: 5\r\n\r\nva";
    static final String FOREIGN = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    static final String ENDLESS = "HTTP/1.1 200 OK\r\nKvorum-Version: 7\r\n\r\nvalue";
    static final String PROXY =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno";
    static final String OVERLOADED = problem(503, "overloaded", "");

    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final List<String> answers;
    private final List<String> requests = new ArrayList<>();
    final String url = "http://127.0.0.1:" + listener.getLocalPort();

    /** Answers the n-th request with the n-th answer, further ones with the last. */
    Fake(String... answers) throws IOException {
        this.answers = List.of(answers);
        start(this::acceptAll);
    }

    static String problem(int status, String type, String more) {
        String body = "{\"type\":\"urn:kvorum:problem:" + type + "\",\"detail\":\"why\"" + more + "}";
        return "HTTP/1.1 " + status + " Problem\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
            + "Content-Length: " + body.length() + "\r\n\r\n" + body;
    }

    static String json(String body) {
        return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + body.length() + "\r\n\r\n" + body;
    }

    /** The answer of a scan; without its end it is cut. */
    static String scan(boolean isWhole, String... keys) {
        var body = new StringBuilder();
        for (String key : keys) body.append("{\"key\":\"" + key + "\",\"value\":\"v\",\"version\":\"7\"}\n");
        String head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
        String chunk = body.isEmpty() ? "" : Integer.toHexString(body.length()) + "\r\n" + body + "\r\n";
        return head + chunk + (isWhole ? "0\r\n\r\n" : "");
    }

    private static void start(Runnable body) {
        var thread = new Thread(body);
        thread.setDaemon(true);
        thread.start();
    }

    private void acceptAll() {
        while (!listener.isClosed()) {
            try {
                Socket connection = listener.accept();
                start(() -> serve(connection));
            } catch (IOException closed) {
                return;
            }
        }
    }

    private void serve(Socket connection) {
        try (connection) {
            var in = new BufferedReader(new InputStreamReader(connection.getInputStream(), StandardCharsets.ISO_8859_1));
            String first = in.readLine();
            if (first == null) return;
            int length = 0;
            for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine())
                if (line.toLowerCase().startsWith("content-length:")) length = Integer.parseInt(line.substring(15).trim());
            for (int i = 0; i < length; i++) in.read();
            String answer = note(first.substring(0, first.lastIndexOf(' ')));
            if (answer.equals(SILENT)) while (in.read() >= 0) continue; // Until the client gives up.
            // It says so, or the client might use the connection again at the moment in which it closes.
            String closing = answer.replaceFirst("\r\n", "\r\nConnection: close\r\n");
            connection.getOutputStream().write(closing.getBytes(StandardCharsets.UTF_8));
        } catch (IOException gone) {
            // The client has given up.
        }
    }

    private synchronized String note(String request) {
        String answer = answers.get(Math.min(requests.size(), answers.size() - 1));
        requests.add(request);
        notifyAll();
        return answer;
    }

    synchronized List<String> requests() {
        return List.copyOf(requests);
    }

    /** Waits until so many requests have come. */
    synchronized void waitFor(int count) throws InterruptedException {
        while (requests.size() < count) wait();
    }

    /** The URL of a port on which nobody listens. */
    static String nobody() throws IOException {
        try (var fake = new Fake(CUT)) {
            return fake.url;
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
