package dev.kvorum;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.regex.Pattern;

/** Gives the token of each request. A file is read again when it has changed. */
final class TokenSource {
    private static final int BYTES_MAX = 4096;
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9._~+/-]+=*");

    private final Path file;
    private String token;
    private FileTime modified;

    /** Either may be none. */
    TokenSource(String token, Path file) {
        if (token != null && file != null) throw new IllegalArgumentException("both a token and a file of it");
        this.token = token == null ? null : checked(token);
        this.file = file;
        current();
    }

    /** The token; none if the client has none. */
    synchronized String current() {
        if (file == null) return token;
        try {
            FileTime now = Files.getLastModifiedTime(file);
            if (!now.equals(modified)) {
                token = checked(Files.readString(file).split("\n", 2)[0].strip());
                modified = now;
            }
            return token;
        } catch (IOException unreadable) {
            throw new UncheckedIOException("the file of the token", unreadable);
        }
    }

    /** Requires that a header can carry a text as a token (RFC 6750). No message shows the text. */
    private static String checked(String token) {
        if (token.length() > BYTES_MAX || !PLAIN.matcher(token).matches())
            throw new IllegalArgumentException(
                "a token is 1 to " + BYTES_MAX + " letters, digits and signs of -._~+/, with = at its end only");
        return token;
    }
}
