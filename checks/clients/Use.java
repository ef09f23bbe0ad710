// Uses examples/Kvorum.java: java -cp CLASSES Use URL ...
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

class Use {
    static void expect(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError("expected " + wanted + ", but it is " + found);
    }

    public static void main(String[] nodes) throws Exception {
        Kvorum kvorum = new Kvorum(nodes);
        List<String> backwards = Arrays.asList(nodes.clone());
        Collections.reverse(backwards); // The node that may be stopped is asked first.
        byte[] key = "java €/+&%\0ÿ".getBytes(StandardCharsets.ISO_8859_1);
        byte[] value = "\0 is a byte, too".getBytes(StandardCharsets.UTF_8);
        kvorum.put(key, value, "ttl=60");
        expect(Arrays.equals(kvorum.get(key).orElseThrow(), value), true);
        Kvorum other = new Kvorum(backwards.toArray(new String[0]));
        expect(Arrays.equals(other.get(key).orElseThrow(), value), true);
        kvorum.delete(key);
        expect(kvorum.get(key), Optional.empty());

        String lines = """
            {"op":"put","key":"java","value":"1"}
            {"op":"get","key":"java"}
            {"op":"delete","key":"java"}
            """;
        byte[] sent = kvorum.send("POST", "/v0/batch", lines.getBytes(StandardCharsets.UTF_8));
        String answers = new String(sent, StandardCharsets.UTF_8);
        // The library has no JSON: a program would read the lines with a package.
        var statuses = Pattern.compile("\"status\":(\\d+)").matcher(answers).results();
        expect(statuses.map(found -> found.group(1)).toList(), List.of("201", "200", "202"));
        expect(answers.lines().toList().get(1).contains("\"value\":\"1\""), true);

        try {
            kvorum.get(new byte[0], "ttl=60");
            throw new AssertionError("a request that is wrong was answered");
        } catch (Kvorum.Failed failed) {
            expect(failed.status, 400);
        }
        try {
            kvorum.put(key, value, "replicas=" + nodes.length + "/" + nodes.length);
        } catch (Kvorum.Failed failed) {
            expect(failed.status, 504);
            Pattern.compile("\"url\":\"([^\"]*)\",\"outcome\":\"([^\"]*)\"")
                .matcher(failed.getMessage()).results()
                .forEach(replica -> System.out.println(replica.group(1) + " " + replica.group(2)));
        }
        System.out.println("ok");
    }
}
