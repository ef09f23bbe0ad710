package dev.kvorum;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpTimeoutException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow.Subscription;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The body of an answer, read piece by piece: the next piece is asked for once the last is taken. */
final class Body implements BodySubscriber<Body> {
    /** One of the two is set; neither at the end. */
    private record Event(List<ByteBuffer> piece, Throwable failure) {}

    private final LinkedBlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final CompletableFuture<Subscription> subscription = new CompletableFuture<>();
    private final ArrayDeque<ByteBuffer> pieces = new ArrayDeque<>();
    private boolean isEnded;

    @Override
    public CompletionStage<Body> getBody() {
        return CompletableFuture.completedFuture(this);
    }

    @Override
    public void onSubscribe(Subscription subscription) {
        this.subscription.complete(subscription);
        subscription.request(1);
    }

    @Override
    public void onNext(List<ByteBuffer> piece) {
        events.add(new Event(piece, null));
    }

    @Override
    public void onError(Throwable failure) {
        events.add(new Event(null, failure));
    }

    @Override
    public void onComplete() {
        events.add(new Event(null, null));
    }

    /** The next piece; none at the end of a whole body. It waits until a time of {@code System.nanoTime}. */
    ByteBuffer next(long deadline) throws IOException, InterruptedException {
        while (!isEnded) {
            ByteBuffer piece = pieces.poll();
            if (piece != null && piece.hasRemaining()) return piece;
            if (piece != null) continue;
            Event event = events.poll(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
            if (event == null) throw new HttpTimeoutException("no whole answer in time");
            if (event.failure != null) throw new IOException("the answer was cut", event.failure);
            if (event.piece == null) {
                isEnded = true;
            } else {
                pieces.addAll(event.piece);
                subscription.join().request(1);
            }
        }
        return null;
    }

    /** The whole body. */
    byte[] readAll(long deadline, int bytesMax) throws IOException, InterruptedException {
        var all = new ByteArrayOutputStream();
        for (ByteBuffer piece = next(deadline); piece != null; piece = next(deadline)) {
            if (all.size() + (long) piece.remaining() > bytesMax)
                throw new IOException("the answer is longer than " + bytesMax + " bytes");
            byte[] bytes = new byte[piece.remaining()];
            piece.get(bytes);
            all.writeBytes(bytes);
        }
        return all.toByteArray();
    }

    /** Closes the connection unless the body was read to its end. */
    void close() {
        if (!isEnded) subscription.thenAccept(Subscription::cancel);
    }
}
