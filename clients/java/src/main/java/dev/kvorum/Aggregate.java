package dev.kvorum;

/**
 * The result of a function.
 *
 * @param operation {@code sum}, {@code min} or {@code max}
 * @param value a {@link Long}, {@link java.math.BigInteger}, {@link Double} or {@link String} (a time is
 *     text of RFC 3339); null if nothing fitted, or if the sum is too great for a number
 * @param counted the number of entities whose value fitted
 */
public record Aggregate(String operation, Object value, long counted) {}
