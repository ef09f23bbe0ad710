// A session store: java -cp kvorum.jar Sessions.java URL ...
//
// It reads commands and answers each with a line; ../README.md has them. A session is a key of its own
// that expires, so no node has to be asked whether one is over, and none has to clean up.
import dev.kvorum.*;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Base64;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The sessions of all users. */
class Sessions {
    static final String PREFIX = "session/";
    static final Duration TTL = Duration.parse("PT" + System.getenv().getOrDefault("SESSION_SECONDS", "1800") + "S");
    static final int TRIES = 5;
    /** The value of a session: the user as JSON. */
    static final Pattern VALUE = Pattern.compile("\\{\"user\": ?\"([\\w.@-]+)\"}");

    private final Kvorum kvorum;
    private final SecureRandom random = new SecureRandom();

    Sessions(Kvorum kvorum) { this.kvorum = kvorum; }

    /**
     * Repeats a write whose outcome is unknown. That does no harm here: only this write has this key, or it
     * only says again what it said before.
     */
    static void repeated(Runnable write) {
        for (int attempt = 1; attempt < TRIES; attempt++) {
            try {
                write.run();
                return;
            } catch (UnknownOutcomeException unknown) {}
        }
        write.run();
    }

    static String userOf(String value) {
        var user = VALUE.matcher(value);
        if (!user.matches()) throw new IllegalArgumentException("no session: " + value);
        return user.group(1);
    }

    /** Begins a session. Its ID is a secret that nobody can guess. */
    String login(String user) {
        byte[] secret = new byte[16];
        random.nextBytes(secret);
        String id = Base64.getUrlEncoder().withoutPadding().encodeToString(secret);
        String value = "{\"user\":\"" + user + "\"}";
        repeated(() -> kvorum.put(PREFIX + id, value.getBytes(), new Options().ttl(TTL)));
        return id;
    }

    /** Makes a session last again. A touch cannot bring back what a logout has ended meanwhile. */
    String touch(String id) {
        try {
            repeated(() -> kvorum.touch(PREFIX + id, new Options().ttl(TTL)));
            return "ok";
        } catch (ConflictException over) {
            return "none";
        }
    }

    String logout(String id) {
        repeated(() -> kvorum.delete(PREFIX + id));
        return "ok";
    }

    /** The sessions that are not over. */
    String list() {
        try (var live = kvorum.scan(new ScanOptions().prefix(PREFIX)).stream()) {
            return live.map(entity -> userOf(entity.text()) + ":" + entity.keyText().substring(PREFIX.length()))
                .collect(Collectors.joining(" "));
        }
    }

    public static void main(String[] urls) throws Exception {
        try (var kvorum = Kvorum.of(urls).token(System.getenv("KVORUM_TOKEN")).build()) {
            var sessions = new Sessions(kvorum);
            var lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = (line.strip() + " ").split(" ", 2);
                String argument = words[1].strip();
                System.out.println(switch (words[0]) {
                    case "login" -> sessions.login(argument);
                    case "user" -> kvorum.get(PREFIX + argument).map(entity -> userOf(entity.text())).orElse("none");
                    case "touch" -> sessions.touch(argument);
                    case "logout" -> sessions.logout(argument);
                    case "list" -> sessions.list();
                    default -> "error: login USER, user ID, touch ID, logout ID or list";
                });
            }
        }
    }
}
