package dev.kvorum;

import java.util.Objects;

/** What tests require. */
final class Check {
    private Check() {}

    interface Body {
        void run() throws Exception;
    }

    static void equal(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) throw new AssertionError(found + ", and " + wanted + " is wanted");
    }

    static void isTrue(boolean condition, String what) {
        if (!condition) throw new AssertionError("it does not hold: " + what);
    }

    static <E extends Throwable> E thrown(Class<E> kind, Body body) {
        try {
            body.run();
        } catch (Throwable thrown) {
            if (kind.isInstance(thrown)) return kind.cast(thrown);
            throw new AssertionError(thrown + ", and " + kind.getSimpleName() + " is wanted", thrown);
        }
        throw new AssertionError("nothing was thrown, and " + kind.getSimpleName() + " is wanted");
    }
}
