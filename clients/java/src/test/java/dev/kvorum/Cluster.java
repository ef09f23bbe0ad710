package dev.kvorum;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** Three nodes that nodes.py runs for a test. KVORUM names the program. */
final class Cluster implements AutoCloseable {
    private final Process nodes;
    private final BufferedReader output;
    private final Writer input;
    final List<String> urls = new ArrayList<>();
    final Path caFile;
    final Path tokenFile;

    Cluster(String... arguments) throws Exception {
        Check.isTrue(System.getenv("KVORUM") != null, "KVORUM names the program whose nodes are tested");
        String program = System.getenv().getOrDefault("KVORUM_TEST_NODES", "../testing/nodes.py");
        var command = new ArrayList<>(List.of(program));
        command.addAll(List.of(arguments));
        nodes = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        output = nodes.inputReader();
        input = nodes.outputWriter();
        Map<String, Object> told = answer();
        for (Object url : (List<?>) told.get("urls")) urls.add((String) url);
        caFile = path(told, "ca_file");
        tokenFile = path(told, "token_file");
    }

    private static Path path(Map<String, Object> told, String name) {
        return told.get(name) instanceof String path ? Path.of(path) : null;
    }

    private Map<String, Object> answer() throws Exception {
        String line = output.readLine();
        if (line == null) throw new IOException("the nodes do not start");
        Map<String, Object> told = Json.object(Query.bytes(line));
        Check.equal(told.get("error"), null);
        return told;
    }

    /** Has nodes.py do something. */
    void order(String words) throws Exception {
        input.write(words + "\n");
        input.flush();
        answer();
    }

    /** A client that asks this node first, from 0. */
    Kvorum client(int first) {
        var order = new ArrayList<>(urls);
        Collections.rotate(order, -first);
        return Kvorum.of(order.toArray(String[]::new)).caFile(caFile).tokenFile(tokenFile).build();
    }

    @Override
    public void close() throws Exception {
        input.close();
        Check.equal(nodes.waitFor(), 0);
    }
}
