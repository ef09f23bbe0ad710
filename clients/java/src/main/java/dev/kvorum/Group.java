package dev.kvorum;

import java.util.List;

/**
 * The entities that have the same values of some expressions.
 *
 * @param by a value for each expression: as of an {@link Aggregate}, or a {@link Boolean}; null for what
 *     does not fit
 * @param count the number of the entities
 * @param aggregates a result for each function
 */
public record Group(List<Object> by, long count, List<Aggregate> aggregates) {}
