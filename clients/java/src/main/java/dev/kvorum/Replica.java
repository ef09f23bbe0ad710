package dev.kvorum;

/**
 * A node as a replica of a key.
 *
 * @param name its name; none in a receipt
 * @param url its URL
 * @param outcome what became of the request, in a receipt; otherwise none
 */
public record Replica(String name, String url, String outcome) {}
