package dev.kvorum;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;

/** Sends one request to one node, over connections that it keeps open. */
final class Transport {
    /** The greatest length of a value that a node can be configured to take. */
    private static final int ANSWER_BYTES_MAX = 1 << 30;
    private static final int PROBLEM_BYTES_MAX = 1 << 20;

    private final HttpClient http;
    private final Semaphore places;
    private final TokenSource token;
    private final Nodes nodes;

    Transport(Duration connectTimeout, SSLContext tls, int connections, TokenSource token, Nodes nodes) {
        var builder = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            .proxy(HttpClient.Builder.NO_PROXY)
            .connectTimeout(connectTimeout);
        if (tls != null) builder.sslContext(tls);
        http = builder.build();
        places = new Semaphore(connections, true);
        this.token = token;
        this.nodes = nodes;
    }

    /**
     * Sends a request to a node.
     *
     * @param deadline a time of {@code System.nanoTime}
     * @throws Failed if there is no answer with success, nor the 404 of a node
     */
    Answer send(Nodes.Node node, Request request, long deadline) throws Failed {
        takePlace(node, deadline);
        boolean isStreaming = false;
        try {
            Answer answer = sendOne(node, request, deadline);
            isStreaming = answer.stream != null;
            return answer;
        } finally {
            if (!isStreaming) places.release();
        }
    }

    private void takePlace(Nodes.Node node, long deadline) throws Failed {
        try {
            if (places.tryAcquire(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) return;
        } catch (InterruptedException interrupted) {
            throw Failed.notSent(node, interrupted, false);
        }
        throw Failed.notSent(node, new IOException("all connections of the client are in use"), false);
    }

    private Answer sendOne(Nodes.Node node, Request request, long deadline) throws Failed {
        HttpResponse<Body> response = response(node, request, deadline);
        var answer = new Answer(node, response.statusCode(), response.headers());
        Body body = response.body();
        boolean isSuccess = answer.isSuccess(request);
        if (isSuccess && request.isStream) {
            answer.stream = body;
            answer.release = places::release;
            nodes.answered(node, true);
            return answer;
        }
        try {
            answer.content = body.readAll(deadline, isSuccess ? ANSWER_BYTES_MAX : PROBLEM_BYTES_MAX);
        } catch (IOException | InterruptedException cut) {
            throw unanswered(node, cut);
        } finally {
            body.close();
        }
        return isSuccess ? succeeded(answer, request) : withoutSuccess(answer, request);
    }

    private Answer succeeded(Answer answer, Request request) throws Failed {
        try {
            if (request.isPage) answer.page = Json.object(answer.content);
            if (request.isAggregate) answer.aggregates = Aggregates.of(Json.objectWithNumbers(answer.content));
        } catch (Json.MalformedException foreign) {
            nodes.failed(answer.node, System.nanoTime());
            throw Failed.foreign(answer, foreign.getMessage());
        }
        nodes.answered(answer.node, true);
        return answer;
    }

    private HttpResponse<Body> response(Nodes.Node node, Request request, long deadline) throws Failed {
        var sent = http.sendAsync(httpRequest(node, request), head -> new Body());
        try {
            return sent.get(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException silent) {
            abandon(sent);
            throw unanswered(node, new HttpTimeoutException("no answer in time"));
        } catch (InterruptedException | CancellationException ended) {
            abandon(sent);
            throw unanswered(node, ended);
        } catch (ExecutionException failure) {
            throw unanswered(node, failure.getCause() instanceof Exception cause ? cause : failure);
        }
    }

    /** Cancels a request; the answer may come at the same moment. */
    private static void abandon(CompletableFuture<HttpResponse<Body>> sent) {
        sent.cancel(true);
        sent.thenAccept(late -> late.body().close());
    }

    private HttpRequest httpRequest(Nodes.Node node, Request request) {
        var builder = HttpRequest.newBuilder(URI.create(node.url + request.target))
            .method(request.method, request.body.length == 0
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofByteArray(request.body));
        request.headers.forEach(builder::header);
        String current = token.current();
        if (current != null) builder.header("Authorization", "Bearer " + current);
        if (request.traceparent != null) builder.header("traceparent", request.traceparent);
        return builder.build();
    }

    /** What an attempt without a whole answer means. */
    private Failed unanswered(Nodes.Node node, Exception cause) {
        if (!(cause instanceof InterruptedException)) nodes.failed(node, System.nanoTime());
        boolean isDistrusted = cause instanceof SSLHandshakeException;
        if (isDistrusted || isUnconnected(cause)) return Failed.notSent(node, cause, isDistrusted);
        return Failed.unanswered(node, cause);
    }

    private static boolean isUnconnected(Throwable cause) {
        for (Throwable at = cause; at != null; at = at.getCause())
            if (at instanceof ConnectException
                    || at instanceof HttpConnectTimeoutException
                    || at instanceof UnknownHostException
                    || at instanceof UnresolvedAddressException) return true;
        return false;
    }

    /** Returns the 404 of a node. */
    private Answer withoutSuccess(Answer answer, Request request) throws Failed {
        Problem problem = answer.problem(request);
        if (problem == null) {
            nodes.failed(answer.node, System.nanoTime());
            throw Failed.foreign(answer, "status " + answer.status);
        }
        if (answer.isNoSuchEntity(problem)) {
            nodes.answered(answer.node, true);
            return answer;
        }
        if (answer.status == 503) nodes.busy(answer.node, System.nanoTime(), answer.retryAfter());
        else nodes.answered(answer.node, false);
        throw Failed.ofProblem(answer, problem);
    }
}
