// Create only: users register names, and each name goes to exactly one of them.
//   javac -d OUT ../Kvorum.java Names.java && java -cp OUT Names URL ...
//
// A name is a key. It is written only if it has no value (If-None-Match: *). The value is an ID of the
// attempt: so a user who does not know whether a write took effect only has to read.
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

class Names {
    static final int USERS = 4, NAMES = 40;

    /** Whether the name is the user's from now on. */
    static boolean register(Kvorum kvorum, String name, String user) throws InterruptedException {
        byte[] attempt = (user + "/" + UUID.randomUUID()).getBytes(StandardCharsets.UTF_8);
        String target = Kvorum.entity(name.getBytes(StandardCharsets.UTF_8));
        for (; ; Thread.sleep(20)) {
            try {
                int status = kvorum.send("PUT", target, attempt, "If-None-Match", "*").statusCode();
                if (status == 201) return true;
                // 412 says that the name has an owner: maybe this attempt, whose answer was lost.
                // After any other answer it is unknown, and the name may have none yet.
                var found = kvorum.send("GET", target, new byte[0]);
                if (found.statusCode() == 200) return Arrays.equals(found.body(), attempt);
            } catch (IOException unknown) {
                // The next attempt is answered 412 if this one took effect.
            }
        }
    }

    public static void main(String[] nodes) throws Exception {
        if (nodes.length == 0)
            nodes = new String[] {"http://127.0.0.1:8080", "http://127.0.0.1:8081", "http://127.0.0.1:8082"};
        var all = List.of(nodes);
        var run = UUID.randomUUID();
        var owners = new ConcurrentHashMap<String, List<String>>();
        var done = new AtomicInteger();
        var pool = Executors.newFixedThreadPool(USERS);
        var users = new ArrayList<Future<?>>();
        for (int number = 0; number < USERS; number++) {
            var order = new ArrayList<>(all);
            Collections.rotate(order, number);
            String user = "user-" + number;
            users.add(pool.submit(() -> {
                var kvorum = new Kvorum(order.toArray(String[]::new));
                for (int name = 0; name < NAMES; name++) {
                    String key = "name/" + run + "/" + name;
                    if (register(kvorum, key, user))
                        owners.computeIfAbsent(key, k -> new CopyOnWriteArrayList<>()).add(user);
                    if (done.incrementAndGet() == USERS * NAMES / 2) System.out.println("half");
                }
                return null;
            }));
        }
        for (var user : users) user.get();
        pool.shutdown();
        if (owners.size() != NAMES || owners.values().stream().anyMatch(of -> of.size() != 1)) {
            System.err.println("a name has no owner, or two: " + owners);
            System.exit(1);
        }
        System.out.println("ok");
    }
}
