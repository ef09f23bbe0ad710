package dev.kvorum;

/**
 * The version that a write has made.
 *
 * @param version a number that names one write
 * @param etag with its quotes
 */
public record Written(long version, String etag) {}
