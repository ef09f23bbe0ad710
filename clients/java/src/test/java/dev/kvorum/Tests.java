package dev.kvorum;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** Runs all tests: each static method of these classes that has no parameters and is not private. */
public final class Tests {
    private static final List<Class<?>> CLASSES = List.of(UnitTests.class, FailoverTests.class, OperationTests.class);

    private Tests() {}

    public static void main(String[] arguments) {
        int passed = 0;
        int failed = 0;
        for (Class<?> tests : CLASSES) {
            for (Method test : testsOf(tests)) {
                try {
                    test.invoke(null);
                    passed++;
                } catch (InvocationTargetException | IllegalAccessException failure) {
                    System.err.println(tests.getSimpleName() + "." + test.getName() + " failed:");
                    failure.getCause().printStackTrace();
                    failed++;
                }
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }

    private static List<Method> testsOf(Class<?> tests) {
        return Arrays.stream(tests.getDeclaredMethods())
            .filter(method -> method.getParameterCount() == 0 && !method.isSynthetic())
            .filter(method -> (method.getModifiers() & java.lang.reflect.Modifier.PRIVATE) == 0)
            .sorted(Comparator.comparing(Method::getName))
            .toList();
    }
}
