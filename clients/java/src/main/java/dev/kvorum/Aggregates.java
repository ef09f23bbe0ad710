package dev.kvorum;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * What all entities of a range amount to.
 *
 * @param keys the number of entities that were looked at
 * @param matched the number of those that match the condition
 * @param ack how many replicas of each key had to answer; 0 of a node
 * @param from how many replicas each key has; 0 of a node
 * @param groups the groups
 */
public record Aggregates(long keys, long matched, int ack, int from, List<Group> groups) {
    /** Reads an answer, whose numbers are numbers. */
    static Aggregates of(Map<String, Object> page) throws Json.MalformedException {
        try {
            var groups = new ArrayList<Group>();
            for (Object group : list(page.get("groups"))) groups.add(group((Map<?, ?>) group));
            return new Aggregates(
                (Long) page.get("keys"),
                (Long) page.get("matched"),
                count(page.get("ack")),
                count(page.get("from")),
                List.copyOf(groups));
        } catch (ClassCastException | NullPointerException foreign) {
            throw new Json.MalformedException("the answer has other fields");
        }
    }

    private static Group group(Map<?, ?> group) {
        var aggregates = new ArrayList<Aggregate>();
        for (Object element : list(group.get("aggregates"))) {
            var of = (Map<?, ?>) element;
            aggregates.add(new Aggregate((String) of.get("operation"), of.get("value"), (Long) of.get("counted")));
        }
        // It may hold null, which List.copyOf refuses.
        List<Object> by = Collections.unmodifiableList(new ArrayList<>(list(group.get("by"))));
        return new Group(by, (Long) group.get("count"), List.copyOf(aggregates));
    }

    private static List<?> list(Object value) {
        if (value == null) throw new NullPointerException();
        return (List<?>) value;
    }

    private static int count(Object value) {
        return value == null ? 0 : ((Long) value).intValue();
    }
}
