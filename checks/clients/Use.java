// Uses examples/Kvorum.java: java -cp CLASSES Use URL ...
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.regex.Pattern;

class Use {
    static void expect(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError("expected " + wanted + ", but it is " + found);
    }

    public static void main(String[] nodes) throws Exception {
        Kvorum kvorum = new Kvorum(nodes);
        List<String> backwards = Arrays.asList(nodes.clone());
        Collections.reverse(backwards); // The node that may be stopped is asked first.
        String[] reversed = backwards.toArray(new String[0]);
        String[] after = new String[nodes.length + 1];
        System.arraycopy(nodes, 0, after, 1, nodes.length);
        after[0] = System.getenv("OTHER_SERVER");
        Kvorum behindOther = new Kvorum(after);
        byte[] key = "java €/+&%\0ÿ".getBytes(StandardCharsets.ISO_8859_1), none = new byte[0];
        byte[] value = "\0 is a byte, too".getBytes(StandardCharsets.UTF_8);
        String entity = Kvorum.entity(key);
        expect(new Kvorum(reversed).send("PUT", entity + "&ttl=60", value).statusCode(), 201);
        for (Kvorum client : List.of(kvorum, new Kvorum(reversed), behindOther)) {
            var read = client.send("GET", entity, none);
            expect(read.statusCode(), 200);
            expect(Arrays.equals(read.body(), value), true);
        }
        // It stays with the node that answered the read.
        expect(behindOther.send("PUT", entity, value).statusCode(), 201);
        expect(kvorum.send("DELETE", entity, none).statusCode(), 202);
        expect(kvorum.send("GET", entity, none).statusCode(), 404);

        String lines = """
            {"op":"put","key":"java","value":"1"}
            {"op":"get","key":"java"}
            {"op":"delete","key":"java"}
            """;
        var sent = kvorum.send("POST", "/v0/batch", lines.getBytes(StandardCharsets.UTF_8));
        String answers = new String(sent.body(), StandardCharsets.UTF_8);
        // The library has no JSON: a program would read the lines with a package.
        var statuses = Pattern.compile("\"status\":(\\d+)").matcher(answers).results();
        expect(statuses.map(found -> found.group(1)).toList(), List.of("201", "200", "202"));
        expect(answers.lines().toList().get(1).contains("\"value\":\"1\""), true);

        expect(kvorum.send("GET", Kvorum.entity(none), none).statusCode(), 400);
        Kvorum another = new Kvorum(System.getenv("OTHER_SERVER"));
        for (String method : List.of("PUT", "GET", "DELETE")) {
            try {
                another.send(method, entity, none);
                throw new AssertionError("another server was taken for a node");
            } catch (IOException error) {
                expect(error.getMessage().endsWith("is no Kvorum node: status 200"), true);
            }
        }
        var all = kvorum.send("PUT", entity + "&replicas=" + nodes.length + "/" + nodes.length, value);
        if (all.statusCode() != 201) {
            expect(all.statusCode(), 504);
            Pattern.compile("\"url\":\"([^\"]*)\",\"outcome\":\"([^\"]*)\"")
                .matcher(new String(all.body(), StandardCharsets.UTF_8)).results()
                .forEach(replica -> System.out.println(replica.group(1) + " " + replica.group(2)));
        }
        System.out.println("ok");
    }
}
