package dev.kvorum;

/** What the nodes compute of each group, such as {@code AggregateFunction.sum("value.total")}. */
public final class AggregateFunction {
    private final String operation;
    private final String expression;

    private AggregateFunction(String operation, String expression) {
        this.operation = operation;
        this.expression = expression;
    }

    /** The sum of the numbers that an expression has. */
    public static AggregateFunction sum(String expression) {
        return new AggregateFunction("sum", expression);
    }

    /** The least number, time or text that an expression has. */
    public static AggregateFunction min(String expression) {
        return new AggregateFunction("min", expression);
    }

    /** The greatest number, time or text that an expression has. */
    public static AggregateFunction max(String expression) {
        return new AggregateFunction("max", expression);
    }

    String json() {
        return "{" + Json.quoted(operation) + ":" + Json.quoted(expression) + "}";
    }
}
