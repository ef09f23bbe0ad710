package dev.kvorum;

import java.nio.charset.StandardCharsets;

/** A path and its query, in which each byte that is no letter or digit is escaped. */
final class Query {
    private static final String HEX = "0123456789ABCDEF";
    private static final int KEY_BYTES_MAX = 4096;

    private final StringBuilder text;
    private char separator = '?';

    Query(String path) {
        text = new StringBuilder(path);
    }

    static byte[] checkedKey(byte[] key) {
        if (key.length < 1 || key.length > KEY_BYTES_MAX)
            throw new IllegalArgumentException("a key has 1 to " + KEY_BYTES_MAX + " bytes, this one " + key.length);
        return key;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    Query with(String name, String value) {
        return with(name, bytes(value));
    }

    Query with(String name, byte[] value) {
        text.append(separator).append(name).append('=');
        separator = '&';
        for (byte b : value) {
            boolean isPlain = b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9';
            if (isPlain) text.append((char) b);
            else text.append('%').append(HEX.charAt(b >> 4 & 15)).append(HEX.charAt(b & 15));
        }
        return this;
    }

    Query withReplicas(int ack, int from) {
        if (ack > 0) with("ack", Integer.toString(ack));
        if (from > 0) with("from", Integer.toString(from));
        return this;
    }

    @Override
    public String toString() {
        return text.toString();
    }
}
