package dev.kvorum;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads one JSON text (RFC 8259): objects as maps, arrays as lists, numbers as the text that they
 * are written with, because a version does not fit a double, or as numbers. Nesting is bounded.
 */
final class Json {
    private static final int DEPTH_MAX = 32;

    private final String text;
    private final boolean hasNumbers;
    private int at;
    private int depth;

    private Json(String text, boolean hasNumbers) {
        this.text = text;
        this.hasNumbers = hasNumbers;
    }

    /** A text that is no JSON. */
    static final class MalformedException extends Exception {
        private static final long serialVersionUID = 1;

        MalformedException(String message) {
            super(message);
        }
    }

    /**
     * Reads a text that is one object.
     *
     * @throws MalformedException if it is anything else
     */
    static Map<String, Object> object(byte[] utf8) throws MalformedException {
        return new Json(new String(utf8, StandardCharsets.UTF_8), false).readOnlyObject();
    }

    /**
     * Reads a text that is one object. Whole numbers are a {@code Long}, or a {@code BigInteger} where that
     * is too short, and others a {@code Double}.
     *
     * @throws MalformedException if it is anything else
     */
    static Map<String, Object> objectWithNumbers(byte[] utf8) throws MalformedException {
        return new Json(new String(utf8, StandardCharsets.UTF_8), true).readOnlyObject();
    }

    private Map<String, Object> readOnlyObject() throws MalformedException {
        skipSpace();
        if (peek() != '{') throw malformed("an object is expected");
        var object = readObject();
        skipSpace();
        if (at != text.length()) throw malformed("text follows the object");
        return object;
    }

    /** A string in quotes, with what JSON escapes. */
    static String quoted(String text) {
        var out = new StringBuilder(text.length() + 2).append('"');
        for (int index = 0; index < text.length(); index++) {
            char c = text.charAt(index);
            switch (c) {
                case '"' -> out.append("\\\"");
                case '\\' -> out.append("\\\\");
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                default -> {
                    if (c < ' ') out.append(String.format("\\u%04x", (int) c));
                    else out.append(c);
                }
            }
        }
        return out.append('"').toString();
    }

    /** A field of bytes to send: text, or base64 where they are not UTF-8. */
    static String bytes(String name, byte[] bytes) {
        try {
            String decoded = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            return quoted(name) + ":" + quoted(decoded);
        } catch (CharacterCodingException noText) {
            return quoted(name + "_base64") + ":" + quoted(Base64.getEncoder().encodeToString(bytes));
        }
    }

    private Object readValue() throws MalformedException {
        skipSpace();
        return switch (peek()) {
            case '{' -> readObject();
            case '[' -> readArray();
            case '"' -> readString();
            case 't' -> readWord("true", Boolean.TRUE);
            case 'f' -> readWord("false", Boolean.FALSE);
            case 'n' -> readWord("null", null);
            default -> readNumber();
        };
    }

    private Map<String, Object> readObject() throws MalformedException {
        enter();
        var object = new LinkedHashMap<String, Object>();
        if (!isAtEnd('}')) {
            do {
                skipSpace();
                if (peek() != '"') throw malformed("a name is expected");
                String name = readString();
                skipSpace();
                take(':');
                object.put(name, readValue());
            } while (isContinued('}'));
        }
        depth--;
        return object;
    }

    private List<Object> readArray() throws MalformedException {
        enter();
        var array = new ArrayList<>();
        if (!isAtEnd(']')) {
            do {
                array.add(readValue());
            } while (isContinued(']'));
        }
        depth--;
        return array;
    }

    private void enter() throws MalformedException {
        at++;
        if (++depth > DEPTH_MAX) throw malformed("it is nested too deeply");
    }

    /** Whether the object or array is empty: takes its end if so. */
    private boolean isAtEnd(char end) throws MalformedException {
        skipSpace();
        if (peek() != end) return false;
        at++;
        return true;
    }

    /** Whether another element follows; otherwise takes the end. */
    private boolean isContinued(char end) throws MalformedException {
        skipSpace();
        char next = peek();
        at++;
        if (next == ',') return true;
        if (next == end) return false;
        throw malformed("a comma or an end is expected");
    }

    private String readString() throws MalformedException {
        int begin = ++at;
        int end = begin;
        while (end < text.length() && text.charAt(end) != '"' && text.charAt(end) != '\\') end++;
        if (end < text.length() && text.charAt(end) == '"') {
            at = end + 1;
            return text.substring(begin, end);
        }
        var out = new StringBuilder();
        while (true) {
            char c = peek();
            at++;
            if (c == '"') return out.toString();
            out.append(c == '\\' ? readEscape() : c);
        }
    }

    private char readEscape() throws MalformedException {
        char c = peek();
        at++;
        return switch (c) {
            case '"', '\\', '/' -> c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> readUnicode();
            default -> throw malformed("an unknown escape");
        };
    }

    private char readUnicode() throws MalformedException {
        if (at + 4 > text.length()) throw malformed("it ends within an escape");
        int code = 0;
        for (int end = at + 4; at < end; at++) {
            int digit = Character.digit(text.charAt(at), 16);
            if (digit < 0) throw malformed("an unknown escape");
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Object readWord(String word, Object value) throws MalformedException {
        if (!text.startsWith(word, at)) throw malformed("an unknown word");
        at += word.length();
        return value;
    }

    private Object readNumber() throws MalformedException {
        int begin = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
        if (begin == at) throw malformed("a value is expected");
        String digits = text.substring(begin, at);
        return hasNumbers ? number(digits) : digits;
    }

    private Number number(String digits) throws MalformedException {
        try {
            if (digits.matches(".*[.eE].*")) return Double.valueOf(digits);
            var whole = new BigInteger(digits);
            if (whole.bitLength() < Long.SIZE) return whole.longValue();
            return whole;
        } catch (NumberFormatException odd) {
            throw malformed("a number is expected");
        }
    }

    private void take(char expected) throws MalformedException {
        if (peek() != expected) throw malformed("'" + expected + "' is expected");
        at++;
    }

    private char peek() throws MalformedException {
        if (at >= text.length()) throw malformed("it ends too early");
        return text.charAt(at);
    }

    private void skipSpace() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) at++;
    }

    private MalformedException malformed(String problem) {
        return new MalformedException("no JSON at character " + at + ": " + problem);
    }
}
