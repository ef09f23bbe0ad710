package etcd;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.GetOption;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * YCSB over etcd's own client. A record has one field (`fieldcount=1`), which is the value of
 * TABLE/KEY. Reads and ranges are linearizable, which is etcd's default.
 *
 * <p>Property: etcd.endpoints, the nodes, separated by commas. Threads take them in turn; the
 * threads of a node share its connection, which carries many requests at a time.
 */
public class EtcdDb extends DB {
  private static final long TIMEOUT_SECONDS = 10;
  private static final AtomicInteger THREADS = new AtomicInteger();
  private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();
  private static final String FIELD = "field0";

  private KV store;

  @Override
  public void init() {
    String[] endpoints = getProperties().getProperty("etcd.endpoints").split(",");
    String endpoint = endpoints[THREADS.getAndIncrement() % endpoints.length];
    store = CLIENTS
        .computeIfAbsent(endpoint, url -> Client.builder().endpoints(url).build())
        .getKVClient();
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return attempt(() -> {
      List<KeyValue> found = answer(store.get(key(table, key))).getKvs();
      found.forEach(record -> result.put(FIELD, value(record)));
      return found.isEmpty() ? Status.NOT_FOUND : Status.OK;
    });
  }

  @Override
  public Status scan(
      String table,
      String startKey,
      int count,
      Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return attempt(() -> {
      // The character behind the slash ends the table.
      GetOption range = GetOption.builder()
          .withRange(ByteSequence.from(table + "0", StandardCharsets.UTF_8))
          .withLimit(count)
          .build();
      for (KeyValue record : answer(store.get(key(table, startKey), range)).getKvs()) {
        result.add(new HashMap<>(Map.of(FIELD, value(record))));
      }
      return Status.OK;
    });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return insert(table, key, values);
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return attempt(() -> {
      answer(store.put(key(table, key), ByteSequence.from(values.get(FIELD).toArray())));
      return Status.OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return attempt(() -> {
      answer(store.delete(key(table, key)));
      return Status.OK;
    });
  }

  private interface Attempt {
    Status run() throws ExecutionException, InterruptedException, TimeoutException;
  }

  private static Status attempt(Attempt attempt) {
    try {
      return attempt.run();
    } catch (ExecutionException | InterruptedException | TimeoutException error) {
      System.err.println(error);
      return Status.ERROR;
    }
  }

  private static <T> T answer(Future<T> request)
      throws ExecutionException, InterruptedException, TimeoutException {
    return request.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
  }

  private static ByteSequence key(String table, String key) {
    return ByteSequence.from(table + "/" + key, StandardCharsets.UTF_8);
  }

  private static ByteIterator value(KeyValue record) {
    return new ByteArrayByteIterator(record.getValue().getBytes());
  }
}
