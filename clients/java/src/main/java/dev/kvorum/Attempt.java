package dev.kvorum;

/**
 * What one request to one node met.
 *
 * @param node its URL
 * @param status that of the answer; 0 without one
 * @param problem what the node said; none if it was no problem of a node
 * @param cause why there was no answer of a node; none if there was one
 */
public record Attempt(String node, int status, Problem problem, Exception cause) {
    @Override
    public String toString() {
        if (problem != null) return node + " answers " + status + " (" + problem.type() + "): " + problem.detail();
        if (cause != null) return node + ": " + (cause.getMessage() == null ? cause : cause.getMessage());
        return node + " answers " + status;
    }
}
